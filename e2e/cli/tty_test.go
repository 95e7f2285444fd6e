package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a herald command on a terminal of its own, with a person at it.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	ended  chan error

	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	seen int // how much of text was waited for
}

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// onTerminal starts herald on a new terminal.
func (m *machine) onTerminal(args ...string) *terminal {
	m.t.Helper()
	master, slave := openTerminal(m.t)
	x := &terminal{t: m.t, cmd: exec.Command(herald, args...), master: master, ended: make(chan error, 1)}
	x.cmd.Env = append(m.env(), "TERM=xterm")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = x.cmd.Process.Kill(); slave.Close() })
	go func() { x.ended <- x.cmd.Wait() }()
	go x.read()
	return x
}

func (x *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		x.mu.Lock()
		x.text.Write(buf[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until the terminal shows what it did not show before.
func (x *terminal) shows(pattern string) {
	x.t.Helper()
	want := regexp.MustCompile(pattern)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		x.mu.Lock()
		at := want.FindIndex(x.text.Bytes()[x.seen:])
		if at != nil {
			x.seen += at[1]
		}
		x.mu.Unlock()
		if at != nil {
			return
		}
	}
	x.t.Fatalf("the terminal never showed %s:\n%q", pattern, x.screen())
}

func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// ends waits for the command's end.
func (x *terminal) ends(status int) {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(20 * time.Second):
		x.t.Fatalf("it did not end:\n%q", x.screen())
	}
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.t.Errorf("status = %d, want %d:\n%q", got, status, x.screen())
	}
}

// machine is a home with a running relay, a paired device and an agent's key.
type machine struct {
	t          *testing.T
	dir, relay string
	token      string // of the device
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	serve := exec.Command(herald, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(m.dir, "data"))
	serve.Env = m.env()
	var out lockedBuffer
	serve.Stdout, serve.Stderr = &out, &out
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Signal(syscall.SIGTERM); _ = serve.Wait() })
	for end := time.Now().Add(20 * time.Second); !readyLine.MatchString(out.String()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the relay is not ready:\n%s", out.String())
		}
	}
	m.relay = readyLine.FindStringSubmatch(out.String())[1]
	m.run("pair", linkLine.FindStringSubmatch(out.String())[1], "--name", "desk")
	m.run("key", "create", "bot", "--out", filepath.Join(m.dir, "bot.key"))
	data, err := os.ReadFile(filepath.Join(m.dir, "herald", "profile.json"))
	if err != nil {
		t.Fatal(err)
	}
	var profile struct {
		DeviceToken string `json:"deviceToken"`
	}
	if err := json.Unmarshal(data, &profile); err != nil {
		t.Fatal(err)
	}
	m.token = profile.DeviceToken
	return m
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (m *machine) env() []string {
	return []string{"PATH=/usr/bin:/bin", "HOME=" + m.dir, "XDG_CONFIG_HOME=" + m.dir, "TMPDIR=" + m.dir,
		"HERALD_KEY_FILE=" + filepath.Join(m.dir, "bot.key"), "TZ=UTC"}
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	cmd := exec.Command(herald, args...)
	cmd.Env = m.env()
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("herald %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// asks sends a question and returns its notificationId.
func (m *machine) asks(title string) string {
	m.t.Helper()
	return m.run("notify", title, "--expect-reply")
}

func (m *machine) answerTo(id string) string {
	m.t.Helper()
	return m.run("await", id, "--timeout", "10s")
}

// elsewhere answers a notification as another device would.
func (m *machine) elsewhere(phone, relayID, text string) {
	m.t.Helper()
	body, _ := json.Marshal(map[string]string{"id": relayID, "text": text})
	req, err := http.NewRequest(http.MethodPost, m.relay+"/v1/device/reply", bytes.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+phone)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		m.t.Fatalf("reply: %s", res.Status)
	}
}

func TestAPersonAnswersAtTheTerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	x := m.onTerminal("listen")
	x.shows(`live: waiting`)
	id := m.asks("Ship it?")
	x.shows(`\x1b\[1m#1\x1b\[0m`)
	x.shows(`Ship it\?`)
	x.shows(`type your answer and press Enter`)
	x.types("yex\x7fs, ship\r")
	x.shows(`answered #1`)
	if got := m.answerTo(id); got != "yes, ship" {
		t.Errorf("answer = %q", got)
	}

	one, two := m.asks("First?"), m.asks("Second?")
	x.shows(`First\?`)
	x.shows(`type #3 and your answer`)
	x.types("both\r")
	x.shows(`2 questions are open; say which one you answer, as in #2 yes`)
	x.shows(`#2 First\?`)
	x.types("#3 later\r")
	x.shows(`answered #3`)
	x.types("now\r")
	x.shows(`answered #2`)
	if m.answerTo(one) != "now" || m.answerTo(two) != "later" {
		t.Errorf("answers = %q, %q", m.answerTo(one), m.answerTo(two))
	}

	x.types("/mute\r")
	x.shows(`muted: on`)
	muted := m.asks("Anybody?")
	x.shows(`held back a notification from bot \(muted\)`)
	if got := m.run("receipt", muted); !strings.Contains(got, "held back  muted (all)") {
		t.Errorf("receipt = %s", got)
	}
	x.types("/nonsense\r")
	x.shows(`there is no command /nonsense`)
	x.types("/quit\r")
	x.ends(0)
}

func TestAPersonApprovesAtTheTerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	x := m.onTerminal("listen")
	x.shows(`live: waiting`)
	code, err := appAsks(m.relay, "My agent")
	if err != nil {
		t.Fatal(err)
	}
	x.shows(`\x07`) // it rings
	x.shows(`approval 1`)
	x.shows(`calls itself “My agent”`)
	x.shows(`show you the code ` + code)
	x.shows(`type /approve 1 or /deny 1`)
	x.types("/approve\r")
	x.shows(`say which request`)
	x.types("/approve 1\r")
	x.shows(`approval 1: approved`)
	if got := m.run("connectors"); !strings.Contains(got, "my-agent") {
		t.Errorf("connectors = %s", got)
	}
	if _, err := appAsks(m.relay, "Other"); err != nil {
		t.Fatal(err)
	}
	x.shows(`type /approve 2 or /deny 2`)
	x.types("/deny 2\r")
	x.shows(`approval 2: denied`)
	x.types("/quit\r")
	x.ends(0)
}

// Public case 64, at a real keyboard: an answer begun for one question does not reach the next.
func TestCase064AnAnswerBegunTooLateReachesNobody(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	link := m.run("link", "create", "--name", "phone")
	m.run("pair", link, "--name", "phone", "--profile", filepath.Join(m.dir, "phone.json"))
	data, err := os.ReadFile(filepath.Join(m.dir, "phone.json"))
	if err != nil {
		t.Fatal(err)
	}
	phone := regexp.MustCompile(`hrd_[0-9a-f_]+`).FindString(string(data))
	frames := exec.Command(herald, "listen", "--json", "--count", "1", "--profile", filepath.Join(m.dir, "phone.json"))
	frames.Env = m.env()
	var seen lockedBuffer
	frames.Stdout = &seen
	if err := frames.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frames.Process.Kill(); _ = frames.Wait() })

	x := m.onTerminal("listen")
	x.shows(`live: waiting`)
	old := m.asks("Old?")
	x.shows(`Old\?`)
	x.types("ye")
	x.shows(`ye`)
	relayID := ""
	for end := time.Now().Add(10 * time.Second); relayID == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		relayID = regexp.MustCompile(`r_[0-9a-f]{24}`).FindString(seen.String())
	}
	m.elsewhere(phone, relayID, "no, says the phone")
	x.shows(`#1 was answered on`)
	m.asks("New?")
	x.shows(`New\?`)
	x.types("s\r")
	x.shows(`#1 was answered on another device meanwhile; your line was not sent`)
	if got := m.answerTo(old); got != "no, says the phone" {
		t.Errorf("answer = %q", got)
	}
	x.types("for the new one\r")
	x.shows(`answered #2`)
	x.types("\x03") // Ctrl-C
	x.ends(0)
}

func TestAPasteWaitsForEnter(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	x := m.onTerminal("listen")
	x.shows(`live: waiting`)
	id := m.asks("Which steps?")
	x.shows(`Which steps\?`)
	x.types("\x1b[200~first\rsecond\rthird\x1b[201~")
	x.shows(`pasted; press Enter to send`)
	x.shows(`third`)
	x.types("\r")
	x.shows(`answered #1`)
	if got := m.answerTo(id); got != "first\nsecond\nthird" {
		t.Errorf("answer = %q", got)
	}
	x.types("\x04") // Ctrl-D
	x.ends(0)
}

func TestThePersonAnswersTheDemo(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, dir: t.TempDir()}
	x := m.onTerminal("demo")
	x.shows(`live: waiting`)
	x.shows(`the agent asks`)
	x.shows(`Ship version 2\.1\?`)
	x.types("not today\r")
	x.shows(`the agent reads the answer: .*not today`)
	x.shows(`what the relay recorded`)
	x.ends(0)
	if at := regexp.MustCompile(`[^\r]\n`).FindString(x.screen()); at != "" {
		t.Errorf("a line break passed the line being typed by:\n%q", x.screen())
	}
	if left, _ := filepath.Glob(filepath.Join(m.dir, "herald-demo-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}

	x = m.onTerminal("demo")
	x.shows(`Ship version 2\.1\?`)
	begin := time.Now()
	x.types("\x03")
	x.shows(`you left before answering`)
	x.ends(0)
	if took := time.Since(begin); took > 1500*time.Millisecond { // it used to wait for an answer that nobody gave
		t.Errorf("leaving took %s", took)
	}
}

func TestServeDrawsTheLinkOnATerminal(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, dir: t.TempDir()}
	x := m.onTerminal("serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(m.dir, "data"))
	x.shows(`herald pair http://127\.0\.0\.1:[0-9]+/pair#`)
	x.shows(`█`)
	x.shows(`ready: the relay answers on`)
	x.types("\x03") // the terminal makes it a signal
	x.ends(0)
}
