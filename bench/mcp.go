package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// statusCall asks for what costs the relay least, so that the endpoint itself is measured.
const statusCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"herald_status","arguments":{}}}`

// mcpRequest is a message as MCP clients send it.
func mcpRequest(token, body string) []byte {
	return bytes.Replace(request("POST", "/mcp", token, []byte(body)), []byte("\r\n"), []byte("\r\nAccept: application/json, text/event-stream\r\n"), 1)
}

// mcpStatus compares tools/call herald_status with a bare net/http JSON-RPC echo of the same bytes, and with a server of the
// official Go SDK whose tool does nothing, round by round.
func mcpStatus(r *report, s scale) error {
	return inTemp(func(dir string) error {
		boxes, err := seed(dir, connections, 0)
		if err != nil {
			return err
		}
		var servers [3]*process
		for i, mode := range []string{"serve-relay", "serve-echo", "serve-sdk"} {
			if servers[i], err = start(mode, dir); err != nil {
				return err
			}
			defer servers[i].stop()
		}
		next := func(worker, _ int) []byte { return mcpRequest(boxes[worker].key, statusCall) }
		var toEcho, toSDK []float64
		for round := range s.rounds + 1 { // the first warms up
			var rate [3]float64
			for i, p := range servers {
				if rate[i], _, err = hammer(p.addr, connections, s.seconds, 200, next); err != nil {
					return err
				}
			}
			if round == 0 {
				continue
			}
			toEcho, toSDK = append(toEcho, rate[0]/rate[1]), append(toSDK, rate[0]/rate[2])
			r.note("relay, echo, SDK: calls a second", "%.0f, %.0f, %.0f", rate[0], rate[1], rate[2])
		}
		r.least("tools/call herald_status to a bare echo", quantile(toEcho, 0.5), 0.75, "")
		r.least("tools/call herald_status to the SDK's server", quantile(toSDK, 0.5), 3, "")
		return nil
	})
}

// mcpWaits parks wait_for_reply and then hangs up.
func mcpWaits(r *report, s scale) error {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_for_reply","arguments":{"notificationId":"known","timeoutSeconds":55}}}`
	return parkedWaits(r, s.polls*4/5, 24, "parked wait_for_reply, resident", func(b box) []byte { return mcpRequest(b.key, call) })
}

// statusAnswer is what the relay answers to statusCall.
const statusAnswer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"online\":false,\"quietHours\":{\"active\":false}}"}],"structuredContent":{"online":false,"quietHours":{"active":false}}}}`

// serveEcho answers every JSON-RPC call with the same bytes: it decodes the message and encodes the answer, no more.
func serveEcho(ctx context.Context) error {
	var result struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal([]byte(statusAnswer), &result); err != nil {
		return err
	}
	return serveHTTP(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<10))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var message struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(body, &message); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := json.Marshal(struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result"`
		}{message.JSONRPC, message.ID, result.Result})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
}

// serveSDK is the same with the official Go SDK, in the mode that costs it least: no sessions, plain JSON.
func serveSDK(ctx context.Context) error {
	type quiet struct {
		Active bool `json:"active"`
	}
	type status struct {
		Online     bool  `json:"online"`
		QuietHours quiet `json:"quietHours"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "herald_status"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, status, error) {
		return nil, status{}, nil
	})
	return serveHTTP(ctx, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
}

func serveHTTP(ctx context.Context, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	fmt.Println("ready", l.Addr())
	_ = srv.Serve(l)
	return nil
}
