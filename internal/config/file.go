package config

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxFileBytes   = 1 << 20
	maxSecretBytes = 64 << 10
	fileSuffix     = "_FILE"
)

// fileValues is what a configuration file says.
type fileValues struct {
	byKey    map[string]string
	keys     []string // in order of appearance
	problems []*Problem
	loose    string // says why the file may hold no secret; empty when it may
}

func parseFile(path string) (fileValues, error) {
	data, mode, err := readBounded(path, maxFileBytes)
	if err != nil {
		return fileValues{}, err
	}
	v := parseLines(data)
	v.loose = looseMode(path, mode)
	return v, nil
}

// parseLines reads KEY=value lines. It never fails as a whole: each bad line is a problem of its own.
func parseLines(data []byte) fileValues {
	v := fileValues{byKey: map[string]string{}}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		v.bad("the file", "it is not UTF-8 text", "save it as UTF-8")
		return v
	}
	scan := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\uFEFF"))))
	scan.Buffer(nil, maxFileBytes+1)
	for number := 1; scan.Scan(); number++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		where := "line " + strconv.Itoa(number)
		if !found || !isKey(key) {
			v.bad(where, "it is not KEY=value", "begin comments with #, write one setting per line")
			continue
		}
		if _, twice := v.byKey[key]; twice {
			v.bad(key, "it is set again in "+where, "keep one")
			continue
		}
		value, ok := unquote(strings.TrimSpace(value))
		if !ok {
			v.bad(key, "the quote in "+where+" is not closed at the end of the line", "close it, or leave quotes out")
			continue
		}
		v.byKey[key] = value
		v.keys = append(v.keys, key)
	}
	return v
}

func (v *fileValues) bad(key, detail, hint string) {
	v.problems = append(v.problems, &Problem{Key: key, Detail: detail, Hint: hint})
}

// isKey accepts the shape of a variable name in capitals.
func isKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// unquote removes one pair of quotes around the whole value. Nothing inside is interpreted.
func unquote(s string) (string, bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return s, true
	}
	if len(s) < 2 || s[len(s)-1] != s[0] {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// readSecretFile returns the text of a file that only its owner, and perhaps its group, can read.
func readSecretFile(path string) (string, error) {
	data, mode, err := readBounded(path, maxSecretBytes)
	if err != nil {
		return "", err
	}
	if loose := looseMode(path, mode); loose != "" {
		return "", &looseError{loose + "; run: chmod 600 " + path}
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// looseError refuses a secret that others can read: it is whole, only badly kept.
type looseError struct{ text string }

func (e *looseError) Error() string { return e.text }

// looseMode says what is wrong with the permissions of a file that holds a secret. Group members may read, because
// that is how secrets are handed to services; nobody else may do anything.
func looseMode(path string, mode fs.FileMode) string {
	if runtime.GOOS == "windows" || mode.Perm()&0o027 == 0 {
		return ""
	}
	return fmt.Sprintf("%s has mode %04o, which lets others at a secret", path, mode.Perm())
}

func readBounded(path string, most int64) ([]byte, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.IsDir() {
		return nil, 0, fmt.Errorf("%s is a directory", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return data, info.Mode(), err
}
