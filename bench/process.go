package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/herald-relay/herald/internal/app"
	"github.com/herald-relay/herald/internal/config"
)

// serveMode runs this program as the process that a benchmark measures: "serve-relay DIR", "serve-relay-tls DIR",
// "serve-floor DIR", "serve-echo DIR", "serve-sdk DIR", "serve-events DIR" or "serve-receiver DIR". It prints its address, frees memory when it gets SIGUSR1 and then prints its goroutines.
func serveMode(args []string) bool {
	if len(args) != 2 || !strings.HasPrefix(args[0], "serve-") {
		return false
	}
	go freeOnSignal()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var err error
	switch args[0] {
	case "serve-floor":
		err = serveFloor(ctx, args[1])
	case "serve-relay":
		err = serveRelay(ctx, args[1], false)
	case "serve-relay-tls":
		err = serveRelay(ctx, args[1], true)
	case "serve-echo":
		err = serveEcho(ctx)
	case "serve-sdk":
		err = serveSDK(ctx)
	case "serve-events":
		err = serveEvents(ctx, args[1])
	case "serve-receiver":
		err = serveReceiver(ctx)
	default:
		return false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		os.Exit(1)
	}
	return true
}

func freeOnSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	for range c {
		debug.FreeOSMemory()
		fmt.Println("freed", runtime.NumGoroutine())
	}
}

// benchSecret signs the seeded mailboxes.
const benchSecret = "bench-secret-of-more-than-thirty-two-characters"

func serveRelay(ctx context.Context, dir string, secure bool) error {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.RelaySecret = dir, "127.0.0.1:0", benchSecret
	const plenty = 1_000_000_000
	cfg.NotificationsPerDay, cfg.QueueMax, cfg.RequestsPerDay, cfg.PollSecondsPerDay, cfg.RateLimitPerKey = plenty, plenty, plenty, plenty, plenty
	cfg.Grace = 5 * time.Second
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	parts := app.Parts{}
	if secure {
		l, err := selfSigned()
		if err != nil {
			return err
		}
		parts.Listener = l
	}
	a, err := app.Assemble(ctx, cfg, log, parts)
	if err != nil {
		return err
	}
	go func() {
		<-a.Ready()
		fmt.Println("ready", a.Addr())
	}()
	return a.Run(ctx)
}

func selfSigned() (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
}

// process is a measured process.
type process struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	addr string
}

func start(mode, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, mode, dir)}
	p.cmd.Stderr = os.Stderr
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(pipe)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if p.addr, err = p.expect("ready"); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) expect(word string) (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the measured process said nothing: %w", err)
	}
	got, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if got != word {
		return "", fmt.Errorf("the measured process said %q, want %s", line, word)
	}
	return rest, nil
}

// settle frees the process's memory and returns its resident bytes and goroutines.
func (p *process) settle() (rss int64, goroutines int, err error) {
	for range 2 { // the second collects what finalizers of the first let go
		if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return 0, 0, err
		}
		text, err := p.expect("freed")
		if err != nil {
			return 0, 0, err
		}
		if goroutines, err = strconv.Atoi(text); err != nil {
			return 0, 0, err
		}
	}
	rss, err = p.rss()
	return rss, goroutines, err
}

func (p *process) rss() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

func (p *process) files() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	return len(entries), err
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, p.out)
	return p.cmd.Wait()
}

// inTemp runs fn in a directory of its own.
func inTemp(fn func(dir string) error) error {
	dir, err := os.MkdirTemp("", "herald-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return fn(dir)
}

func databaseIn(dir string) string { return filepath.Join(dir, app.DatabaseFile) }
