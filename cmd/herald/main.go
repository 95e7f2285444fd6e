// Command herald is the relay and everything that talks to it: see herald --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/herald-relay/herald/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Process()))
}
