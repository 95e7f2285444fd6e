package payload

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLinkChars = 2048
	dataScheme   = "data:"
)

var (
	link = form{"an absolute https link of at most 2048 characters, such as https://example.com/page", checkLink}
	icon = form{"an https link of at most 2048 characters, or a data:image/ URL of type png, jpeg, gif or webp in base64 with at most 256 KB of image", checkIcon}
)

// checkLink takes a link that every parser reads alike: no white space, no control characters, no backslash, a host.
func checkLink(s string) (string, string) {
	if chars := utf8.RuneCountInString(s); chars > maxLinkChars {
		return "", tooLong(chars)
	}
	if at := strings.IndexFunc(s, misleading); at >= 0 {
		return "", "percent-encode character " + strconv.Itoa(utf8.RuneCountInString(s[:at])+1)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", "it cannot be parsed as one"
	case u.Scheme != "https":
		return "", "it does not start with https://"
	case u.Hostname() == "":
		return "", "it names no host"
	case !validPort(u.Port()):
		return "", "its port is out of range"
	}
	return s, ""
}

// misleading holds for characters that parsers of links drop, convert or break off at.
func misleading(c rune) bool {
	return c == '\\' || c == '\ufeff' || unicode.IsSpace(c) || banned(c) != ""
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

var iconPrefixes = []string{"data:image/png;base64,", "data:image/jpeg;base64,", "data:image/gif;base64,", "data:image/webp;base64,"}

func checkIcon(s string) (string, string) {
	if !strings.HasPrefix(s, dataScheme) {
		return checkLink(s)
	}
	for _, prefix := range iconPrefixes {
		if image, ok := strings.CutPrefix(s, prefix); ok {
			return s, checkImage(image)
		}
	}
	return "", "it is a data: URL of another type or without base64"
}

// checkImage holds base64 (RFC 4648 section 4), with or without padding (decision 33), to the size it decodes to.
// The image itself is for the device to judge.
func checkImage(encoded string) (problem string) {
	digits := strings.TrimSuffix(strings.TrimSuffix(encoded, "="), "=")
	size := len(digits) * 3 / 4
	switch {
	case digits == "":
		return "it holds no image"
	case len(digits)%4 == 1 || len(digits) != len(encoded) && len(encoded)%4 != 0 || !base64Digits(digits):
		return "its base64 is malformed"
	case size > MaxIconBytes:
		return "the image has " + strconv.Itoa(size) + " bytes"
	}
	return ""
}

func base64Digits(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '+' && c != '/' {
			return false
		}
	}
	return true
}
