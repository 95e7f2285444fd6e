package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// setting is one field of Config as its tags describe it.
type setting struct {
	key    string
	flag   string // "" when the command line has none
	index  int    // field of Config
	as     string // name of its parser
	of     string // what a choice may be
	min    int    // shortest secret, in bytes
	max    int64  // largest number
	secret bool   // KEY_FILE may name a file that holds it
}

// settings lists them in the order of the fields.
var settings = readTags()

func readTags() (list []setting) {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		s := setting{key: key, flag: tag.Get("flag"), index: i, as: tag.Get("as"), of: tag.Get("of")}
		s.min, _ = strconv.Atoi(tag.Get("min"))
		s.max, _ = strconv.ParseInt(tag.Get("max"), 10, 64)
		if s.max == 0 {
			s.max = 1_000_000_000
		}
		s.secret = t.Field(i).Type == reflect.TypeFor[Secret]()
		list = append(list, s)
	}
	return list
}

// Keys returns every name that a file or the environment may set, in the order of the documentation.
func Keys() (keys []string) {
	for _, s := range settings {
		keys = append(keys, s.key)
		if s.secret {
			keys = append(keys, s.key+fileSuffix)
		}
	}
	return keys
}

func known(key string) bool { return slices.Contains(Keys(), key) }

func isSecret(key string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.secret && s.key == key })
}

func flagKey(flag string) (string, bool) {
	for _, s := range settings {
		if s.flag != "" && s.flag == flag {
			return s.key, true
		}
	}
	return "", false
}

// elsewhere reports whether a HERALD_ variable belongs to the commands that talk to a relay, or to the tests.
func elsewhere(key string) bool {
	return slices.Contains(ClientKeys, key) || strings.HasPrefix(key, "HERALD_TEST_")
}

// ClientKeys are the variables of the commands that talk to a relay. Serving ignores them.
var ClientKeys = []string{"HERALD_RELAY", "HERALD_KEY", "HERALD_KEY_FILE", "HERALD_PROFILE",
	"HERALD_LOCAL_API", "HERALD_LOCAL_PORT", "HERALD_LOCAL_TOKEN_FILE"}

// suggest is the hint for an unknown key.
func suggest(key string) string {
	if near := nearest(key); near != "" {
		return "did you mean " + near + "?"
	}
	return "docs/configuration.md lists the settings"
}

// nearest returns the setting that key was probably meant to be, or "": at most two slips away, and fewer than a
// quarter of its letters.
func nearest(key string) (best string) {
	least := 3
	for _, k := range Keys() {
		if d := distance(strings.ToUpper(key), k, least); d < least && d*4 < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, removals and replacements between a and b. It gives up, returning most, when their
// lengths alone differ by that much.
func distance(a, b string, most int) int {
	if d := len(a) - len(b); d >= most || -d >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
