package cli

import (
	"errors"

	"github.com/alecthomas/kong"

	"github.com/herald-relay/herald/internal/cli/screen"
	"github.com/herald-relay/herald/internal/config"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration as serve would, and tell every problem."`
}

type configCheckCmd struct {
	jsonFlag
	settingFlags
}

// Help is shown below the flags.
func (*configCheckCmd) Help() string {
	return `Every setting is printed with its value and where it came from; secrets are not shown. One with a problem is printed as if it were not given. The exit status is 1 when there is a problem.

Examples:
  herald config check
  herald config check --config /etc/herald.conf --json`
}

type configBody struct {
	OK       bool             `json:"ok"`
	Problems []problemBody    `json:"problems"`
	Notes    []string         `json:"notes"`
	Settings []config.Setting `json:"settings"`
}

type problemBody struct {
	Key    string `json:"key"`
	Source string `json:"source,omitzero"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitzero"`
}

// Run checks.
func (c *configCheckCmd) Run(k *kong.Context, w *World) error {
	cfg, err := configuration(k)
	if c.JSON {
		return errors.Join(w.json(configReport(cfg, err)), quietly(err))
	}
	var bad *badConfig
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	rows := [][]string{}
	for _, s := range cfg.Describe() {
		rows = append(rows, []string{s.Key, screen.Line(s.Value), s.Source})
	}
	if shown := w.table([]string{"SETTING", "VALUE", "FROM"}, rows); shown != nil {
		return shown
	}
	for _, note := range cfg.Notes() {
		w.say("note: %s", screen.Line(note))
	}
	if err == nil {
		w.say("the configuration is good")
	}
	return err
}

func configReport(cfg config.Config, err error) configBody {
	out := configBody{OK: err == nil, Problems: []problemBody{}, Notes: cfg.Notes(), Settings: cfg.Describe()}
	var bad *badConfig
	if errors.As(err, &bad) {
		for _, p := range config.Problems(bad.err) {
			out.Problems = append(out.Problems, problemBody{p.Key, p.Source, p.Detail, p.Hint})
		}
	}
	return out
}

// quietly keeps an error's exit status and says nothing: it was told already.
func quietly(err error) error {
	if err == nil {
		return nil
	}
	return &outcome{status: statusFailed}
}
