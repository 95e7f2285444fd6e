package payload

import (
	"slices"
	"strconv"
	"strings"

	"github.com/herald-relay/herald/internal/strictjson"
)

// Bounds of tags (contract section 2.1).
const (
	maxTags     = 10
	maxTagChars = 32
)

// readTags keeps the tags in their order without repeats. They are counted before repeats are dropped, and white space
// at a tag's start refuses it where at its end it is trimmed (decision 33).
func readTags(d *draft, r *rule, v *strictjson.Value) {
	if v.Kind != strictjson.Array {
		d.refuse(r.name, r.need, "it is "+v.Kind.Article())
		return
	}
	if len(v.Items) > maxTags {
		d.refuse(r.name, r.need, "there are "+strconv.Itoa(len(v.Items)))
		return
	}
	var room [maxTags]string
	tags := room[:0]
	for i := range v.Items {
		tag, problem := readTag(&v.Items[i])
		if problem != "" {
			d.refuse(r.name, r.need, "tag "+strconv.Itoa(i+1)+" "+problem)
			return
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	if len(tags) > 0 {
		d.writeTexts(r.name, tags)
	}
}

// readTag reads one tag. The problem completes "tag 3 …".
func readTag(v *strictjson.Value) (tag, problem string) {
	if v.Kind != strictjson.String {
		return "", "is " + v.Kind.Article()
	}
	tag = trim(v.Str)
	switch {
	case v.Str == "":
		return "", "is empty"
	case !strings.HasPrefix(v.Str, tag) || tag == "":
		return "", "starts with white space"
	case strings.Contains(tag, ","):
		return "", "has a comma"
	}
	if tag, problem = cleanText(tag, maxTagChars, true); problem != "" {
		return "", "is wrong: " + problem
	}
	return tag, ""
}
