package payload_test

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/strictjson"
)

func TestSpeechIsNormalised(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ members, want string }{
		"true stays true":                             {`"speak":true`, `"speak":true`},
		"false stays false":                           {`"speak":false`, `"speak":false`},
		"text becomes an object":                      {`"speak":" done "`, `"speak":{"text":"done"}`},
		"text keeps its lines":                        {`"speak":"a\nb"`, `"speak":{"text":"a\nb"}`},
		"an object keeps what it has":                 {`"speak":{"lang":"en-us","speed":1.25,"voice":"af_heart","text":"x"}`, `"speak":{"text":"x","voice":"af_heart","speed":1.25,"lang":"en-us"}`},
		"an object of one member":                     {`"speak":{"lang":"pt-BR"}`, `"speak":{"lang":"pt-BR"}`},
		"an object without members is true":           {`"speak":{}`, `"speak":true`},
		"an object of nothing but absent is true":     {`"speak":{"text":" ","voice":null}`, `"speak":true`},
		"a voice turns speech on":                     {`"voice":"af_heart"`, `"speak":{"voice":"af_heart"}`},
		"a speed turns speech on":                     {`"speed":0.5`, `"speak":{"speed":0.5}`},
		"presentation voice turns it on":              {`"presentation":"voice"`, `"presentation":"voice","speak":true`},
		"presentation both turns it on":               {`"presentation":"both"`, `"presentation":"both","speak":true`},
		"presentation banner does not":                {`"presentation":"banner"`, `"presentation":"banner"`},
		"presentation banner does not turn it off":    {`"presentation":"banner","speak":true`, `"presentation":"banner","speak":true`},
		"voice and speed join text":                   {`"speak":"x","voice":"v","speed":2`, `"speak":{"text":"x","voice":"v","speed":2}`},
		"voice and speed join true":                   {`"speak":true,"voice":"v","speed":1`, `"speak":{"voice":"v","speed":1}`},
		"voice and speed join an object":              {`"speak":{"text":"x"},"voice":"v","speed":1`, `"speak":{"text":"x","voice":"v","speed":1}`},
		"values inside win":                           {`"voice":"out","speed":2,"speak":{"voice":"in","speed":1}`, `"speak":{"voice":"in","speed":1}`},
		"what is missing inside is taken from beside": {`"voice":"out","speed":2,"speak":{"voice":"in"}`, `"speak":{"voice":"in","speed":2}`},
		"null inside does not win":                    {`"voice":"out","speak":{"voice":null}`, `"speak":{"voice":"out"}`},
		"false beats a voice":                         {`"speak":false,"voice":"v"`, `"speak":false`},
		"false beats a speed":                         {`"speed":1,"speak":false`, `"speak":false`},
		"false beats presentation":                    {`"presentation":"both","voice":"v","speak":false`, `"presentation":"both","speak":false`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantStored(t, with(test.members), stored(test.want))
		})
	}
}

func TestCharactersOfText(t *testing.T) {
	t.Parallel()
	family := "Grüße 👩‍👩‍👧‍👦 完成" // joined by U+200D, which stays
	tests := map[string]struct{ title, want, part string }{
		"case 102: joined emoji and other scripts stay":  {title: family, want: family},
		"case 102: encoded words are not decoded":        {title: "=?UTF-8?B?R3LDvMOfZQ==?=", want: "=?UTF-8?B?R3LDvMOfZQ==?="},
		"case 104: a newline becomes a space":            {title: `a\nb`, want: "a b"},
		"case 104: CR and LF become one space":           {title: `a\r\nX-Evil: 1`, want: "a X-Evil: 1"},
		"a tab becomes a space":                          {title: `a\tb`, want: "a b"},
		"a run of breaks becomes one space":              {title: `a\n\t\n\u2028\u2029b`, want: "a b"},
		"spaces beside a break stay":                     {title: `a \n b`, want: "a   b"},
		"marks for one direction stay":                   {title: "a\u200eb\u200fc", want: "a\u200eb\u200fc"},
		"letters are not folded or composed":             {title: "e\u0301É", want: "e\u0301É"},
		"NUL is refused":                                 {title: `a\u0000b`, part: "character 2 is a control character"},
		"an escape character is refused":                 {title: `ab\u001b[31m`, part: "character 3 is a control character"},
		"a bell at the start is refused":                 {title: `\u0007a`, part: "character 1 is a control character"},
		"delete is refused":                              {title: `a\u007f`, part: "control character"},
		"a vertical tab is refused":                      {title: `a\u000bb`, part: "control character"},
		"C1 controls are refused":                        {title: `a\u009bb`, part: "control character"},
		"the last C1 control is refused":                 {title: `a\u009fb`, part: "control character"},
		"a next-line control inside is refused":          {title: `a\u0085b`, part: "control character"},
		"a right-to-left override is refused":            {title: `pay \u202efdp.exe`, part: "character 5 is a bidirectional control character"},
		"a right-to-left embedding is refused":           {title: `a\u202ab`, part: "bidirectional"},
		"a pop of an embedding is refused":               {title: `a\u202cb`, part: "bidirectional"},
		"an isolate is refused":                          {title: `a\u2066b`, part: "bidirectional"},
		"the end of an isolate is refused":               {title: `a\u2069`, part: "bidirectional"},
		"a control character counts after emoji as one":  {title: `😀😀\u0001`, part: "character 3 is"},
		"length counts characters after breaks are gone": {title: strings.Repeat(`a\r\n`, 100) + "a", part: "it has 201 characters"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := `{"title":"` + test.title + `"}`
			if test.part != "" {
				wantRefused(t, in, "invalid_request", test.part, "title")
				return
			}
			if got := accept(t, in).Title; got != test.want {
				t.Errorf("title = %q, want %q", got, test.want)
			}
		})
	}
	for _, field := range []string{"body", "subtitle", "project", "duration", "link", "imageURL", "speak", "sound", "icon"} {
		wantRefused(t, with(`"`+field+`":"a\u202eb"`), "invalid_request", field+" must be", field)
		wantRefused(t, with(`"`+field+`":"a\u0000b"`), "invalid_request", field+" must be", field)
	}
	wantRefused(t, with(`"speak":{"text":"a\u0000b"}`), "invalid_request", "character 2 is a control", "speak.text")
	wantRefused(t, with(`"tags":["a\u0000b"]`), "invalid_request", "character 2 is a control", "tags")
}

func TestTags(t *testing.T) {
	t.Parallel()
	ten := `"a","b","c","d","e","f","g","h","i","j"`
	tests := map[string]struct{ tags, want, part string }{
		"ten":                                  {tags: ten, want: ten},
		"repeats are dropped, the first stays": {tags: `"b","a","b "`, want: `"b","a"`},
		"case makes a difference":              {tags: `"Prod","prod"`, want: `"Prod","prod"`},
		"white space at the end is trimmed":    {tags: `"a \t\n"`, want: `"a"`},
		"white space inside stays":             {tags: `"a b"`, want: `"a b"`},
		"a break inside becomes a space":       {tags: `"a\nb"`, want: `"a b"`},
		"32 characters":                        {tags: `"` + strings.Repeat("ä", 32) + `   "`, want: `"` + strings.Repeat("ä", 32) + `"`},
		"eleven, though two are the same":      {tags: ten + `,"a"`, part: "there are 11"},
		"white space at the start":             {tags: `"a"," b"`, part: "tag 2 starts with white space"},
		"a no-break space at the start":        {tags: `"\u00a0b"`, part: "tag 1 starts with white space"},
		"nothing but white space":              {tags: `"  "`, part: "tag 1 starts with white space"},
		"an empty one":                         {tags: `"a",""`, part: "tag 2 is empty"},
		"a comma":                              {tags: `"a,b"`, part: "tag 1 has a comma"},
		"33 characters":                        {tags: `"` + strings.Repeat("a", 33) + `"`, part: "tag 1 is wrong: it has 33 characters"},
		"a number":                             {tags: `"a",7`, part: "tag 2 is a number"},
		"null":                                 {tags: `null`, part: "tag 1 is null"},
		"an array":                             {tags: `["a"]`, part: "tag 1 is an array"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := with(`"tags":[` + test.tags + `]`)
			if test.part != "" {
				wantRefused(t, in, "invalid_request", test.part, "tags")
				return
			}
			wantStored(t, in, stored(`"tags":[`+test.want+`]`))
		})
	}
	wantStored(t, with(`"tags":[]`), `{"title":"t","expectReply":false}`)
	wantRefused(t, with(`"tags":"a"`), "invalid_request", "it is a string", "tags")
}

func TestLinks(t *testing.T) {
	t.Parallel()
	const host = "https://example.com/"
	tests := map[string]struct{ link, part string }{
		"a plain one":                     {link: "https://example.com"},
		"path, query, fragment, port":     {link: "https://example.com:8443/a/b%20c?q=1&r=%zz#top"},
		"a scheme in capitals":            {link: "HTTPS://example.com/"},
		"a name outside ASCII":            {link: "https://bücher.example/straße"},
		"an IPv6 address":                 {link: "https://[2001:db8::1]/"},
		"2048 characters":                 {link: host + strings.Repeat("a", 2048-len(host))},
		"2049 characters":                 {host + strings.Repeat("a", 2049-len(host)), "it has 2049 characters"},
		"http":                            {"http://example.com/", "does not start with https://"},
		"javascript":                      {"javascript:alert(1)", "does not start with https://"},
		"a file":                          {"file:///etc/passwd", "does not start with https://"},
		"data in a link":                  {"data:text/html,x", "does not start with https://"},
		"no scheme":                       {"example.com/a", "does not start with https://"},
		"only a path":                     {"/a", "does not start with https://"},
		"a scheme left to the page":       {"//example.com/", "does not start with https://"},
		"no host":                         {"https:///a", "names no host"},
		"a scheme alone":                  {"https://", "names no host"},
		"a scheme without slashes":        {"https:example.com", "names no host"},
		"a port without a host":           {"https://:443/", "names no host"},
		"a port out of range":             {"https://example.com:65536/", "port is out of range"},
		"a port that is no number":        {"https://example.com:http/", "cannot be parsed"},
		"half an IPv6 address":            {"https://[::1/", "cannot be parsed"},
		"a broken percent code":           {"https://example.com/%zz", "cannot be parsed"},
		"a space in the path":             {"https://example.com/a b", "percent-encode character 22"},
		"a space in the host":             {"https://exa mple.com/", "percent-encode character 12"},
		"a newline":                       {`https://example.com/\nb`, "percent-encode character 21"},
		"a tab in the scheme":             {`ht\ttps://example.com/`, "percent-encode character 3"},
		"a no-break space":                {"https://example.com/\u00a0", ""},
		"a no-break space inside":         {"https://example.com/\u00a0x", "percent-encode character 21"},
		"backslashes in place of slashes": {`https:\\\\example.com`, "percent-encode character 7"},
		"a backslash before the at sign":  {`https://evil.example\\@example.com/`, "percent-encode character 21"},
		"a mark that reverses the text":   {`https://example.com/\u202egnp.exe`, "percent-encode character 21"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, field := range []string{"link", "imageURL", "icon"} {
				in := with(`"` + field + `":"` + test.link + `"`)
				switch {
				case test.part == "":
					wantStored(t, in, stored(`"`+field+`":"`+strings.TrimSpace(test.link)+`"`))
				case field == "icon" && strings.HasPrefix(test.link, "data:"):
					wantRefused(t, in, "invalid_request", "of another type", field)
				default:
					wantRefused(t, in, "invalid_request", test.part, field)
				}
			}
		})
	}
}

func TestIconsAsData(t *testing.T) {
	t.Parallel()
	full := base64.StdEncoding.EncodeToString(make([]byte, payload.MaxIconBytes))
	over := base64.StdEncoding.EncodeToString(make([]byte, payload.MaxIconBytes+1))
	tests := map[string]struct{ icon, part string }{
		"png":                              {icon: "data:image/png;base64,iVBORw0KGgo="},
		"jpeg":                             {icon: "data:image/jpeg;base64,/9j/4AA="},
		"gif":                              {icon: "data:image/gif;base64,R0lGODlh"},
		"webp":                             {icon: "data:image/webp;base64,UklGRg=="},
		"without padding":                  {icon: "data:image/png;base64,iVBORw0KGgo"},
		"without two of padding":           {icon: "data:image/png;base64,UklGRg"},
		"exactly 256 KB":                   {icon: "data:image/png;base64," + full},
		"exactly 256 KB, without padding":  {icon: "data:image/png;base64," + strings.TrimRight(full, "=")},
		"one byte more":                    {"data:image/png;base64," + over, "the image has 262145 bytes"},
		"one byte more, without padding":   {"data:image/png;base64," + strings.TrimRight(over, "="), "the image has 262145 bytes"},
		"svg":                              {"data:image/svg+xml;base64,PHN2Zz4=", "of another type"},
		"html":                             {"data:text/html;base64,PHN2Zz4=", "of another type"},
		"a type in capitals":               {"data:image/PNG;base64,iVBORw0K", "of another type"},
		"a parameter":                      {"data:image/png;charset=x;base64,iVBORw0K", "of another type"},
		"without base64":                   {"data:image/png,abc", "of another type"},
		"no image":                         {"data:image/png;base64,", "holds no image"},
		"padding alone":                    {"data:image/png;base64,==", "holds no image"},
		"one digit too many":               {"data:image/png;base64,iVBOR", "malformed"},
		"padding of the wrong length":      {"data:image/png;base64,iVBORw=", "malformed"},
		"padding where none belongs":       {"data:image/png;base64,iVBO=", "malformed"},
		"three of padding":                 {"data:image/png;base64,iVBORw===", "malformed"},
		"padding inside":                   {"data:image/png;base64,iV=BORw0K", "malformed"},
		"the alphabet for links":           {"data:image/png;base64,iVB-Rw_K", "malformed"},
		"a newline inside":                 {`data:image/png;base64,iVBO\nRw0K`, "malformed"},
		"percent codes":                    {"data:image/png;base64,iVBORw%3D%3D", "malformed"},
		"something after the image":        {"data:image/png;base64,iVBORw==#x", "malformed"},
		"the scheme of a page in disguise": {"data:image/png;base64,javascript:x", "malformed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := with(`"icon":"` + test.icon + `"`)
			if test.part != "" {
				wantRefused(t, in, "invalid_request", test.part, "icon")
				return
			}
			wantStored(t, in, stored(`"icon":"`+test.icon+`"`))
		})
	}
}

func TestEverythingButTheIconMustFitTheLimit(t *testing.T) {
	t.Parallel()
	full := "data:image/png;base64," + base64.StdEncoding.EncodeToString(make([]byte, payload.MaxIconBytes))
	escaped := strings.Replace(full, "image/", `image\/`, 1)
	pad := func(in string, size int) string { return in + strings.Repeat(" ", size-len(in)) }
	plain := with(`"body":"b"`)
	iconed := with(`"icon":"` + full + `"`)
	iconless := len(iconed) - len(full) - 2
	tests := map[string]struct {
		in   string
		fits bool
	}{
		"exactly the limit":                        {pad(plain, maxBody), true},
		"one byte more":                            {pad(plain, maxBody+1), false},
		"exactly the limit without the icon":       {pad(iconed, len(iconed)+maxBody-iconless), true},
		"one byte more without the icon":           {pad(iconed, len(iconed)+maxBody-iconless+1), false},
		"an icon with an escaped slash":            {with(`"icon":"` + escaped + `"`), true},
		"an icon as a link counts":                 {pad(with(`"icon":"https://example.com/`+strings.Repeat("a", 1000)+`"`), maxBody+1), false},
		"a long imageURL counts":                   {pad(with(`"imageURL":"data:image/png;base64,`+strings.Repeat("A", 40000)+`"`), 50000), false},
		"an icon that is no string counts":         {with(`"icon":["data:` + strings.Repeat("A", maxBody) + `"]`), false},
		"a second icon counts":                     {with(`"icon":"` + full + `","icon":"` + full + `"`), false},
		"a body of 100 MB":                         {strings.Repeat("x", 100<<20), false},
		"a body above the ceiling, whatever in it": {pad(iconed, int(payload.Ceiling(maxBody))+1), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := payload.Parse([]byte(test.in), maxBody)
			if test.fits && err != nil {
				t.Errorf("refused: %v", err)
			}
			if e := fault.From(err); !test.fits && (err == nil || e.Kind != fault.TooLarge || e.Code != "too_large") {
				t.Errorf("answered with %v, want too_large", err)
			}
		})
	}
	if at := payload.Ceiling(maxBody); int64(len(iconed)+maxBody-iconless) > at || at > 512<<10 {
		t.Errorf("ceiling = %d", at)
	}
}

func TestMalformedJSONComesBeforeLengthAndLengthBeforeFields(t *testing.T) {
	t.Parallel()
	wantRefused(t, `{"title":"`+strings.Repeat("x", maxBody), "invalid_request", "ends too early")
	_, err := payload.Parse([]byte(`{"command":"`+strings.Repeat("x", maxBody)+`"}`), maxBody)
	if !fault.Is(err, fault.TooLarge) {
		t.Errorf("a long unknown field is answered with %v", err)
	}
}

func TestArgumentsOfAToolAreReadAlike(t *testing.T) {
	t.Parallel()
	doc, err := strictjson.Parse([]byte(`{"arguments": {"title":" t ","voice":"v"} , "name":"send_notification"}`))
	if err != nil {
		t.Fatal(err)
	}
	arguments, _ := doc.Member("arguments")
	got, err := payload.FromValue(arguments)
	if err != nil {
		t.Fatal(err)
	}
	want := accept(t, `{"title":" t ","voice":"v"}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payloads differ (-body +arguments):\n%s", diff)
	}
	size := len(`{"title":" t ","voice":"v"}`)
	if err := payload.Fits(arguments, size); err != nil {
		t.Error(err)
	}
	if err := payload.Fits(arguments, size-1); !fault.Is(err, fault.TooLarge) {
		t.Errorf("one byte too many is answered with %v", err)
	}
}

// The texts are what a JavaScript engine prints for the numbers.
func TestNumbersArePrintedAsJavaScriptPrintsThem(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"0": "0", "-0": "0", "-0.0": "0", "1": "1", "-1.0": "-1", "1e3": "1000", "0.1": "0.1", "1.50": "1.5",
		"123456789012345680000": "123456789012345680000", "1e20": "100000000000000000000",
		"1e21": "1e+21", "1.5e300": "1.5e+300", "-2.5e21": "-2.5e+21", "999999999999999999999": "1e+21",
		"0.000001": "0.000001", "0.0000001": "1e-7", "1.25e-7": "1.25e-7", "5e-324": "5e-324", "1e-10": "1e-10", "1e-400": "0",
		"9007199254740991": "9007199254740991", "9007199254740993": "9007199254740992", "-9007199254740993": "-9007199254740992",
		"0.30000000000000004": "0.30000000000000004", "1.7976931348623157e308": "1.7976931348623157e+308",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			wantStored(t, with(`"duration":`+in), stored(`"duration":`+strconv.Quote(want)))
		})
	}
}
