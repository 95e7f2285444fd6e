package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/strictjson"
	"github.com/herald-relay/herald/internal/web"
)

// socketMax is the longest path of a socket that is sure to work everywhere, with room for its making.
const socketMax = 90

// SocketPath is where the relay with that data directory serves its operator: in the directory itself, or, when that
// path is too long for a socket, in a folder of the user's own below the directory for temporary files.
func SocketPath(dataDir string) (string, error) {
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(abs, "admin.sock")
	if len(path) <= socketMax {
		return path, nil
	}
	sum := sha256.Sum256([]byte(abs))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("herald-%d-%s", os.Getuid(), hex.EncodeToString(sum[:8])))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return filepath.Join(dir, "admin.sock"), ours(dir)
}

// ours refuses a directory that somebody else made or can enter.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || ok && int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory of this user alone; remove it", dir)
	}
	return nil
}

// Server serves an Admin on a unix socket.
type Server struct {
	path     string
	listener net.Listener
	http     *http.Server
}

// Listen opens the socket. A leftover of a process that died is replaced: the caller holds the data directory.
func Listen(dataDir string, a Admin, log *slog.Logger) (*Server, error) {
	path, err := SocketPath(dataDir)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	l, err := listenPrivately(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return &Server{path: path, listener: l, http: &http.Server{Handler: routes(a, log), ReadHeaderTimeout: 5 * time.Second}}, nil
}

// listenPrivately makes the socket where nobody else can enter and moves it into place once it has its mode: whatever
// the umask and the directory allow, no other user can connect at any moment.
func listenPrivately(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it moves
	if err := errors.Join(os.Chmod(filepath.Join(dir, "s"), 0o600), os.Rename(filepath.Join(dir, "s"), path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	defer os.Remove(s.path)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close gives the socket up without having run.
func (s *Server) Close() error { return errors.Join(s.listener.Close(), os.Remove(s.path)) }

type nameBody struct {
	Name string `json:"name"`
}

func routes(a Admin, log *slog.Logger) http.Handler {
	rt := web.NewRouter(log, nil, nil)
	rt.Handle("GET /people", func(w http.ResponseWriter, r *http.Request) error {
		list, err := a.People(r.Context())
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, list)
	})
	rt.Handle("POST /people", func(w http.ResponseWriter, r *http.Request) error {
		data, err := web.ReadBody(w, r, web.SmallBody)
		if err != nil {
			return err
		}
		v, err := strictjson.ParseObject(data)
		if err != nil {
			return err
		}
		name, _ := v.Text("name")
		return invited(w, http.StatusCreated)(a.AddPerson(r.Context(), name))
	})
	rt.Handle("POST /people/{name}/invitations", func(w http.ResponseWriter, r *http.Request) error {
		return invited(w, http.StatusCreated)(a.Invite(r.Context(), r.PathValue("name")))
	})
	rt.Handle("DELETE /people/{name}", func(w http.ResponseWriter, r *http.Request) error {
		if err := a.RemovePerson(r.Context(), r.PathValue("name")); err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, nameBody{r.PathValue("name")})
	})
	return rt
}

func invited(w http.ResponseWriter, status int) func(Invitation, error) error {
	return func(inv Invitation, err error) error {
		if err != nil {
			return err
		}
		return web.WriteJSON(w, status, inv)
	}
}

// Client speaks to a running relay.
type Client struct{ http *http.Client }

// ErrNotRunning says that no relay serves the data directory.
var ErrNotRunning = errors.New("no relay is running on this data directory")

// Dial connects to the relay that runs on the data directory; ErrNotRunning when none does.
func Dial(ctx context.Context, dataDir string) (*Client, error) {
	path, err := SocketPath(dataDir)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", path)
	}
	conn, err := dial(ctx, "", "")
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrNotRunning, err)
	}
	_ = conn.Close() // it answered, which is all that was asked
	return &Client{&http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 30 * time.Second}}, nil
}

// Close releases the connection.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// People lists everybody.
func (c *Client) People(ctx context.Context) (list []Person, err error) {
	err = c.call(ctx, http.MethodGet, "/people", nil, &list)
	return list, err
}

// AddPerson makes a person and invites their first device.
func (c *Client) AddPerson(ctx context.Context, name string) (inv Invitation, err error) {
	err = c.call(ctx, http.MethodPost, "/people", nameBody{name}, &inv)
	return inv, err
}

// Invite makes a new pairing link.
func (c *Client) Invite(ctx context.Context, name string) (inv Invitation, err error) {
	err = c.call(ctx, http.MethodPost, "/people/"+url.PathEscape(name)+"/invitations", nil, &inv)
	return inv, err
}

// RemovePerson removes a person.
func (c *Client) RemovePerson(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/people/"+url.PathEscape(name), nil, new(nameBody))
}

type refusal struct {
	Error   string   `json:"error"`
	Message string   `json:"message"`
	Fields  []string `json:"fields"`
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://relay"+path, body)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the running relay: %w", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("ask the running relay: %w", err)
	}
	if res.StatusCode >= 400 {
		var no refusal
		if err := json.Unmarshal(data, &no); err != nil {
			return fmt.Errorf("the running relay answered %s", res.Status)
		}
		return fault.New(kindOf(res.StatusCode), no.Error, "%s", no.Message).WithFields(no.Fields...)
	}
	return json.Unmarshal(data, out)
}

func kindOf(status int) fault.Kind {
	for _, k := range []fault.Kind{fault.Invalid, fault.NotFound, fault.Conflict, fault.Unavailable, fault.Exhausted, fault.Forbidden} {
		if web.Status(&fault.Error{Kind: k}) == status {
			return k
		}
	}
	return fault.Internal
}
