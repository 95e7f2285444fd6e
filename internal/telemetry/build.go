package telemetry

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by release builds: -ldflags "-X github.com/herald-relay/herald/internal/telemetry.version=v1.2.3".
var version string

// Build tells which program this is.
type Build struct {
	Version string `json:"version"`          // such as v1.2.3; "devel" when nobody named it
	Commit  string `json:"commit,omitempty"` // of the source, with "+changes" when it was not clean
	Go      string `json:"go"`               // such as go1.26.8
	System  string `json:"system"`           // such as linux/amd64
}

// ReadBuild reads what the linker and the version control system left in the program.
func ReadBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info, version)
}

func buildOf(info *debug.BuildInfo, named string) Build {
	b := Build{Version: named, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		b.Commit = settings["vcs.revision"]
		if len(b.Commit) > 12 {
			b.Commit = b.Commit[:12]
		}
		if b.Commit != "" && settings["vcs.modified"] == "true" {
			b.Commit += "+changes"
		}
		if v := info.Main.Version; b.Version == "" && v != "" && v != "(devel)" {
			b.Version = v
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// String is one line: "herald v1.2.3 (0123456789ab, go1.26.8, linux/amd64)".
func (b Build) String() string {
	parts := []string{b.Go, b.System}
	if b.Commit != "" {
		parts = append([]string{b.Commit}, parts...)
	}
	return "herald " + b.Version + " (" + strings.Join(parts, ", ") + ")"
}
