// Package browser shows the relay's pages to a real browser: Chromium, headless, drives the built program as a person
// does, with and without script, by keyboard, on a telephone's screen and on a desktop's.
//
// Screenshots are written to the directory that HERALD_SCREENSHOTS names, else to one for this run that is removed.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience bounds every wait for something that happens by itself.
const patience = 30 * time.Second

// herald is the path of the binary under test: the one that HERALD_E2E_BINARY names, else one built for the run.
var herald = os.Getenv("HERALD_E2E_BINARY")

// screenshots is where pictures go. Every page is taken on every screen when somebody wants to see them.
var (
	screenshots = os.Getenv("HERALD_SCREENSHOTS")
	everything  = screenshots != ""
)

// axe is the text of the accessibility checker, from the packages of e2e/npm.
var axe string

// chromium is the browser that all tests share. The pages keep nothing in it.
var chromium context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "herald-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, "SKIPPED:", err)
		if os.Getenv("CI") != "" {
			return 1
		}
		return 0
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), flags()...)
	defer stop()
	ctx, quit := chromedp.NewContext(ctx)
	defer quit()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "start the browser:", err)
		return 1
	}
	chromium = ctx
	return m.Run()
}

// prepare builds the program and looks for what else the tests need.
func prepare(dir string) error {
	text, err := os.ReadFile("../npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		return errors.New("the packages of e2e/npm are not installed; run: scripts/npm.sh")
	}
	axe = string(text)
	if program() == "" {
		return errors.New("there is no Chromium; install it (Debian: chromium), or name one in HERALD_CHROMIUM")
	}
	if screenshots == "" {
		screenshots = filepath.Join(dir, "screenshots")
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		return err
	}
	if herald == "" {
		herald = filepath.Join(dir, "herald")
		if out, err := exec.Command("go", "build", "-o", herald, "../../cmd/herald").CombinedOutput(); err != nil {
			return fmt.Errorf("build herald: %w\n%s", err, out)
		}
	}
	return nil
}

var program = sync.OnceValue(func() string {
	for _, name := range []string{os.Getenv("HERALD_CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
})

func flags() []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program()), chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
		// Containers that run tests rarely allow the sandbox, and often have little shared memory. Only our own pages are shown.
		chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		// The browser itself calls nobody.
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		// All pages in one process, and nothing beside them: a window costs little then.
		chromedp.Flag("process-per-site", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-breakpad", true),
		chromedp.Flag("disable-features", "BackForwardCache"), // which keeps a page or not by the memory there is
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true), chromedp.Flag("font-render-hinting", "none"),
	}
}
