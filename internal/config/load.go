package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sources says where to look for settings besides the defaults.
type Sources struct {
	// File is the configuration file; empty means the flag config, HERALD_CONFIG of the environment, or none.
	File string
	// Env looks up one environment variable; nil means there are none.
	Env func(string) (string, bool)
	// Environ lists all of them as KEY=value, to find misspelt ones; nil skips that.
	Environ func() []string
	// Flags holds the flags that were given, by name without dashes. A boolean flag's value is "true" or "false".
	Flags map[string]string
}

// Process returns the sources of this process: its environment, with the given file and flags.
func Process(file string, flags map[string]string) Sources {
	return Sources{File: file, Env: os.LookupEnv, Environ: os.Environ, Flags: flags}
}

// The names of the sources, as Describe and problems show them.
const (
	fromFile = "file"
	fromEnv  = "environment"
	fromFlag = "flag"
)

// Load reads and checks the configuration. Its error joins one *Problem per mistake, so that all are told at once; see
// Problems. The Config returned beside an error is as complete as it could be made and must not be used to serve.
func Load(src Sources) (Config, error) {
	l := &loader{src: src, cfg: Default()}
	if l.src.Env == nil {
		l.src.Env = func(string) (string, bool) { return "", false }
	}
	l.cfg.sources = map[string]string{}
	l.cfg.Data = dataHome(l.src.Env)
	l.readFile()
	l.readEnv()
	l.readFlags()
	l.judge()
	return l.cfg, errors.Join(l.problems...)
}

// loader carries one Load. Problems gather in the order they are met.
type loader struct {
	src      Sources
	cfg      Config
	problems []error
}

func (l *loader) problem(key, source, detail, hint string) {
	l.problems = append(l.problems, &Problem{Key: key, Source: source, Detail: detail, Hint: hint})
}

func (l *loader) note(text string) { l.cfg.notes = append(l.cfg.notes, text) }

func (l *loader) readFile() {
	path, source := cmp.Or(l.src.File, l.src.Flags["config"]), fromFlag
	if path == "" {
		path, _ = l.src.Env("HERALD_CONFIG")
		source = fromEnv
	}
	if path == "" {
		return
	}
	l.cfg.File, l.cfg.sources["HERALD_CONFIG"] = path, source
	values, err := parseFile(path)
	if err != nil {
		l.problem("HERALD_CONFIG", source, err.Error(), "name a readable file of KEY=value lines")
		return
	}
	for _, p := range values.problems {
		l.problem(p.Key, fromFile, p.Detail, p.Hint)
	}
	for _, key := range values.keys {
		if key == "HERALD_CONFIG" {
			l.problem(key, fromFile, "a file cannot name another one", "remove the line")
		} else if !known(key) {
			l.problem(key, fromFile, "there is no such setting", suggest(key))
		} else if isSecret(key) && values.loose != "" {
			l.problem(key, fromFile, values.loose, "chmod 600 "+path)
		}
	}
	l.apply(fromFile, func(key string) (string, bool) { v, ok := values.byKey[key]; return v, ok })
}

func (l *loader) readEnv() {
	l.apply(fromEnv, func(key string) (string, bool) {
		if key == "HERALD_CONFIG" {
			return "", false // readFile took it
		}
		return l.src.Env(key)
	})
	if l.src.Environ == nil {
		return
	}
	for _, entry := range slices.Sorted(slices.Values(l.src.Environ())) {
		key, value, _ := strings.Cut(entry, "=")
		switch {
		case value == "" || known(key) || elsewhere(key):
		case strings.HasPrefix(key, "HERALD_"):
			l.problem(key, fromEnv, "there is no such setting", suggest(key))
		default:
			if near := nearest(key); near != "" {
				l.note("the environment has " + key + ", which is no setting of the relay; " + near + " is")
			}
		}
	}
}

func (l *loader) readFlags() {
	byKey := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(l.src.Flags)) {
		key, ok := flagKey(name)
		if !ok {
			l.problem("--"+name, fromFlag, "there is no such flag", "herald serve --help lists them")
			continue
		}
		byKey[key] = l.src.Flags[name]
	}
	l.apply(fromFlag, func(key string) (string, bool) { v, ok := byKey[key]; return v, ok })
}

// apply sets every setting that lookup knows. An empty value counts as not given. A secret may come from the file that
// KEY_FILE names instead.
func (l *loader) apply(source string, lookup func(string) (string, bool)) {
	for _, s := range settings {
		raw, _ := lookup(s.key)
		if s.secret {
			raw = l.secretFrom(s, source, raw, lookup)
		}
		if raw = strings.TrimSpace(raw); raw != "" {
			l.set(s, source, raw)
		}
	}
}

func (l *loader) set(s setting, source, raw string) {
	used, err := s.set(&l.cfg, raw)
	if p, ok := errors.AsType[*Problem](err); ok {
		l.problem(s.key, source, p.Detail, p.Hint)
	} else if !used {
		l.note(s.key + " is not positive and so does not count; " + s.text(&l.cfg) + " is in force")
	} else {
		l.cfg.sources[s.key] = source
	}
}

func (l *loader) secretFrom(s setting, source, raw string, lookup func(string) (string, bool)) string {
	key := s.key + fileSuffix
	path, _ := lookup(key)
	if path == "" {
		return raw
	}
	if raw != "" {
		l.problem(key, source, s.key+" is set as well", "set one of the two")
		return raw
	}
	text, err := readSecretFile(path)
	if err != nil {
		l.problem(key, source, err.Error(), "name a file that only its owner can read and that holds the secret alone")
	}
	return text
}

// dataHome is the default of Data: the user's data directory as the XDG base directory specification has it.
func dataHome(env func(string) (string, bool)) string {
	if dir, _ := env("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "herald")
	}
	if home, _ := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "herald")
	}
	if dir, err := os.UserConfigDir(); err == nil {
		return filepath.Join(dir, "herald") // systems without HOME, such as Windows
	}
	return ""
}
