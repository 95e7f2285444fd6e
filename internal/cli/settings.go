package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/herald-relay/herald/internal/config"
)

// settingsGroup marks the flags that are settings of the relay: they are handed to package config by name.
const settingsGroup = "setting"

// placeFlags are the settings that say which relay of this machine is meant.
type placeFlags struct {
	Listen   string `group:"setting" placeholder:"ADDR" help:"Address and port to answer on; 127.0.0.1:8787 by default (HERALD_LISTEN)."`
	Origin   string `group:"setting" placeholder:"URL" help:"The relay's public address (HERALD_ORIGIN)."`
	Data     string `group:"setting" placeholder:"DIR" help:"Directory for everything the relay keeps (HERALD_DATA)."`
	Database string `group:"setting" placeholder:"URL" help:"PostgreSQL instead of the embedded database. A URL with a password belongs in HERALD_DATABASE."`
	Config   string `group:"setting" placeholder:"FILE" help:"A file of KEY=value lines (HERALD_CONFIG)."`
}

// settingFlags are the settings that a person types. All others come from the environment or the file.
type settingFlags struct {
	placeFlags
	TLSDomain      string `name:"tls-domain" group:"setting" placeholder:"HOST" help:"Get a certificate for this name by ACME (HERALD_TLS_DOMAIN)."`
	TrustedProxies string `group:"setting" placeholder:"LIST" help:"Addresses of your own proxies (HERALD_TRUSTED_PROXIES)."`
	PrivateListen  string `group:"setting" placeholder:"ADDR" help:"Address for metrics and profiles (HERALD_PRIVATE_LISTEN)."`
	Grace          string `group:"setting" placeholder:"TIME" help:"How long a stop waits (HERALD_GRACE)."`
	LogFormat      string `group:"setting" placeholder:"HOW" help:"text or json (HERALD_LOG_FORMAT)."`
	LogLevel       string `group:"setting" placeholder:"LEVEL" help:"debug, info, warn or error (HERALD_LOG_LEVEL)."`
	Dev            bool   `group:"setting" help:"For trying things on this machine (HERALD_DEV)."`
}

// given collects the settings among the flags that were typed.
func given(k *kong.Context) map[string]string {
	flags := map[string]string{}
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Group != nil && p.Flag.Group.Key == settingsGroup {
			flags[p.Flag.Name] = fmt.Sprint(k.FlagValue(p.Flag))
		}
	}
	return flags
}

// configuration reads the configuration of the relay, with the settings that were typed.
func configuration(k *kong.Context) (config.Config, error) {
	flags := given(k)
	file := flags["config"]
	delete(flags, "config")
	cfg, err := config.Load(config.Process(file, flags))
	if err != nil {
		return cfg, &badConfig{err}
	}
	return cfg, nil
}

// badConfig shows each problem of a configuration on a line of its own.
type badConfig struct{ err error }

func (e *badConfig) Error() string {
	list := config.Problems(e.err)
	if len(list) == 0 {
		return e.err.Error()
	}
	var text strings.Builder
	text.WriteString("the configuration has " + count(int64(len(list)), "problem") + ":")
	for _, p := range list {
		text.WriteString("\n  " + p.Error())
	}
	return text.String()
}

func (e *badConfig) Unwrap() error { return e.err }
