package payload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/fault"
	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/strictjson"
)

// with builds a body that has a title and the given members.
func with(members string) string { return `{"title":"t",` + members + `}` }

// stored is the payload that with(members) comes out as when it is left as it was.
func stored(members string) string { return `{"title":"t",` + members + `,"expectReply":false}` }

func TestAcceptedFieldsAreStored(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"a title alone":                               {`{"title":"t"}`, `{"title":"t","expectReply":false}`},
		"fields come out in one order, compact":       {` { "tool" : "x" , "body":"b","expectReply":true,"title":"t" } `, `{"title":"t","body":"b","tool":"x","expectReply":true}`},
		"null is absent":                              {with(`"body":null,"tags":null,"speak":null,"persistent":null,"speed":null`), `{"title":"t","expectReply":false}`},
		"text is trimmed":                             {`{"title":"\u00a0 t \ufeff\n","body":"\t b\n\n"}`, stored(`"body":"b"`)},
		"empty after trimming is absent":              {with(`"body":" \n ","status":"  ","link":"","notificationId":"\t","duration":" ","icon":"","speak":" ","voice":""`), `{"title":"t","expectReply":false}`},
		"a title of 200 characters":                   {`{"title":"` + strings.Repeat("ü", 200) + `"}`, `{"title":"` + strings.Repeat("ü", 200) + `","expectReply":false}`},
		"a body of 8000 characters of four bytes":     {with(`"body":"` + strings.Repeat("😀", 8000) + `"`), stored(`"body":"` + strings.Repeat("😀", 8000) + `"`)},
		"white space around does not count as length": {with(`"project":"  ` + strings.Repeat("p", 100) + `  "`), stored(`"project":"` + strings.Repeat("p", 100) + `"`)},
		"line breaks and tabs stay in a body":         {with(`"body":"a\r\n\tb"`), stored(`"body":"a\r\n\tb"`)},
		"quotes and backslashes survive":              {with(`"body":"\"\\\/"`), stored(`"body":"\"\\/"`)},
		"status is stored in lower case":              {with(`"status":" Build_OK-2 "`), stored(`"status":"build_ok-2"`)},
		"every label":                                 {with(`"project":"a","session":"b","task":"c","tool":"d","group":"e"`), stored(`"project":"a","session":"b","task":"c","tool":"d","group":"e"`)},
		"a duration in words":                         {with(`"duration":"about 5 min"`), stored(`"duration":"about 5 min"`)},
		"a duration as a number becomes its text":     {with(`"duration":90.50`), stored(`"duration":"90.5"`)},
		"a duration may be negative":                  {with(`"duration":-1e-9`), stored(`"duration":"-1e-9"`)},
		"a notificationId of every allowed kind":      {with(`"notificationId":"Az09._:-"`), stored(`"notificationId":"Az09._:-"`)},
		"a notificationId of 128 characters":          {with(`"notificationId":"` + strings.Repeat("i", 128) + `"`), stored(`"notificationId":"` + strings.Repeat("i", 128) + `"`)},
		"persistent false is kept":                    {with(`"persistent":false`), stored(`"persistent":false`)},
		"the shortest timeout":                        {with(`"timeoutSeconds":1`), stored(`"timeoutSeconds":1`)},
		"the longest timeout, written oddly":          {with(`"timeoutSeconds":3.6e3`), stored(`"timeoutSeconds":3600`)},
		"a timeout with a fraction":                   {with(`"timeoutSeconds":1.50`), stored(`"timeoutSeconds":1.5`)},
		"a sound with spaces":                         {with(`"sound":"Glass 2.aiff_-x"`), stored(`"sound":"Glass 2.aiff_-x"`)},
		"a presentation":                              {with(`"presentation":"banner"`), stored(`"presentation":"banner"`)},
		"a picture":                                   {with(`"imageURL":"https://example.com/a.png"`), stored(`"imageURL":"https://example.com/a.png"`)},
		"allowVoiceReply only when sent":              {with(`"allowVoiceReply":true`), stored(`"allowVoiceReply":true`)},
		"expectReply null is false":                   {with(`"expectReply":null`), `{"title":"t","expectReply":false}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantStored(t, test.in, test.want)
		})
	}
}

func TestEveryWordOfAChoiceIsAccepted(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"low", "normal", "high", "urgent"} {
		wantStored(t, with(`"priority":" `+word+` "`), stored(`"priority":"`+word+`"`))
	}
	for _, word := range []string{"banner", "voice", "both"} {
		wantStored(t, with(`"speak":false,"presentation":"`+word+`"`), stored(`"presentation":"`+word+`","speak":false`))
	}
}

func TestParseReportsWhatTheRelayNeeds(t *testing.T) {
	t.Parallel()
	got := accept(t, `{"title":" Ship it? ","notificationId":" build-214 ","expectReply":true}`)
	want := payload.Payload{AgentID: "build-214", Title: "Ship it?", ExpectReply: true,
		JSON: []byte(`{"title":"Ship it?","notificationId":"build-214","expectReply":true}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payload differs (-want +got):\n%s", diff)
	}
	if got := accept(t, `{"title":"t"}`); got.AgentID != "" || got.ExpectReply {
		t.Errorf("defaults are %+v", got)
	}
}

func TestBadValuesAreRefusedByField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ members, field, part string }{
		"a subtitle of 201 characters":           {`"subtitle":"` + strings.Repeat("ü", 201) + `"`, "subtitle", "at most 200 characters; it has 201 characters"},
		"a body of 8001 characters":              {`"body":"` + strings.Repeat("b", 8001) + `"`, "body", "at most 8000 characters; it has 8001"},
		"a project of 101 characters":            {`"project":"` + strings.Repeat("p", 101) + `"`, "project", "at most 100"},
		"a session of 101 characters":            {`"session":"` + strings.Repeat("p", 101) + `"`, "session", "at most 100"},
		"a task of 101 characters":               {`"task":"` + strings.Repeat("p", 101) + `"`, "task", "at most 100"},
		"a tool of 101 characters":               {`"tool":"` + strings.Repeat("p", 101) + `"`, "tool", "at most 100"},
		"a group of 101 characters":              {`"group":"` + strings.Repeat("p", 101) + `"`, "group", "at most 100"},
		"a status with a space":                  {`"status":"in progress"`, "status", "letters, digits, - and _; character 3 is another"},
		"a status that is not ASCII":             {`"status":"größe"`, "status", "character 3 is another"},
		"a status of 33 characters":              {`"status":"` + strings.Repeat("s", 33) + `"`, "status", "it has 33 characters"},
		"a duration of 41 characters":            {`"duration":"` + strings.Repeat("1", 41) + `"`, "duration", "at most 40 characters"},
		"a duration that is not finite":          {`"duration":1e999`, "duration", "the number is too large"},
		"a duration that is a boolean":           {`"duration":true`, "duration", "it is a boolean"},
		"a notificationId with a slash":          {`"notificationId":"a/b"`, "notificationId", "character 2 is another"},
		"a notificationId with a newline inside": {`"notificationId":"a\nb"`, "notificationId", "character 2 is another"},
		"a notificationId of 129 characters":     {`"notificationId":"` + strings.Repeat("i", 129) + `"`, "notificationId", "it has 129"},
		"a notificationId that is a number":      {`"notificationId":7`, "notificationId", "it is a number"},
		"a priority in capitals":                 {`"priority":"High"`, "priority", "low, normal, high or urgent"},
		"persistent as text":                     {`"persistent":"true"`, "persistent", "true or false; it is a string"},
		"persistent as a number":                 {`"persistent":1`, "persistent", "true or false; it is a number"},
		"a timeout of zero":                      {`"timeoutSeconds":0`, "timeoutSeconds", "from 1 to 3600; it is less"},
		"a timeout just below one":               {`"timeoutSeconds":0.999`, "timeoutSeconds", "it is less"},
		"a timeout of 3601":                      {`"timeoutSeconds":3601`, "timeoutSeconds", "it is more"},
		"a timeout that is not finite":           {`"timeoutSeconds":1e999`, "timeoutSeconds", "it is more"},
		"a timeout below everything":             {`"timeoutSeconds":-1e999`, "timeoutSeconds", "it is less"},
		"a timeout as text":                      {`"timeoutSeconds":"60"`, "timeoutSeconds", "it is a string"},
		"a sound that is a path":                 {`"sound":"sounds/ping"`, "sound", "character 7 is another"},
		"a sound that climbs":                    {`"sound":"../ping"`, "sound", "character 1 is another"},
		"a sound that starts with a dash":        {`"sound":"-ping"`, "sound", "starting with a letter or digit; character 1"},
		"a sound on two lines":                   {`"sound":"a\nb"`, "sound", "character 2 is another"},
		"a sound of 41 characters":               {`"sound":"` + strings.Repeat("s", 41) + `"`, "sound", "it has 41"},
		"a presentation nobody knows":            {`"presentation":"hologram"`, "presentation", "banner, voice or both"},
		"allowVoiceReply as an object":           {`"allowVoiceReply":{}`, "allowVoiceReply", "it is an object"},
		"expectReply as text":                    {`"expectReply":"yes"`, "expectReply", "it is a string"},
		"speak as a number":                      {`"speak":1`, "speak", "it is a number"},
		"speak as an array":                      {`"speak":[]`, "speak", "it is an array"},
		"speech of 2001 characters":              {`"speak":"` + strings.Repeat("s", 2001) + `"`, "speak", "it has 2001"},
		"speak.text of 2001 characters":          {`"speak":{"text":"` + strings.Repeat("s", 2001) + `"}`, "speak.text", "it has 2001"},
		"speak.text as a number":                 {`"speak":{"text":1}`, "speak.text", "it is a number"},
		"speak.voice with a dash":                {`"speak":{"voice":"af-heart"}`, "speak.voice", "letters, digits and _; character 3"},
		"speak.speed too slow":                   {`"speak":{"speed":0.4}`, "speak.speed", "from 0.5 to 2; it is less"},
		"speak.speed too fast":                   {`"speak":{"speed":2.1}`, "speak.speed", "it is more"},
		"speak.lang of one letter":               {`"speak":{"lang":"e"}`, "speak.lang", "such as en-us"},
		"speak.lang of four letters":             {`"speak":{"lang":"engl"}`, "speak.lang", "such as en-us"},
		"speak.lang with digits":                 {`"speak":{"lang":"e1"}`, "speak.lang", "such as en-us"},
		"speak.lang with an empty region":        {`"speak":{"lang":"en-"}`, "speak.lang", "such as en-us"},
		"speak.lang with a long region":          {`"speak":{"lang":"en-123456789"}`, "speak.lang", "such as en-us"},
		"speak.lang with two regions":            {`"speak":{"lang":"en-us-x"}`, "speak.lang", "such as en-us"},
		"speak.lang with an underscore":          {`"speak":{"lang":"en_us"}`, "speak.lang", "such as en-us"},
		"a voice of 41 characters":               {`"voice":"` + strings.Repeat("v", 41) + `"`, "voice", "it has 41"},
		"a voice that would be dropped anyway":   {`"speak":false,"voice":"a b"`, "voice", "character 2"},
		"a voice that would lose anyway":         {`"speak":{"voice":"a"},"voice":"a b"`, "voice", "character 2"},
		"a speed as text":                        {`"speed":"1"`, "speed", "it is a string"},
		"a speed out of range":                   {`"speed":3`, "speed", "it is more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, with(test.members), "invalid_request", test.field+" must be ", test.field)
			wantRefused(t, with(test.members), "invalid_request", test.part, test.field)
		})
	}
}

func TestATitleIsRequired(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"missing": `{}`, "null": `{"title":null}`, "empty": `{"title":""}`, "blank": `{"title":" \n\u2003"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, in, "invalid_request", "title must be text of at most 200 characters; it is missing", "title")
		})
	}
	wantRefused(t, `{"title":5}`, "invalid_request", "title must be text of at most 200 characters; it is a number", "title")
}

func TestEveryBadFieldOfARequestIsNamedAndTheFirstExplained(t *testing.T) {
	t.Parallel()
	wantRefused(t, `{"speed":9,"link":"http://x","title":"","speak":{"lang":"?","voice":"!"},"tags":"a"}`, "invalid_request",
		"title must be text of at most 200 characters; it is missing. Wrong too: link, tags, speak.lang, speak.voice, speed",
		"title", "link", "tags", "speak.lang", "speak.voice", "speed")
}

func TestEveryFieldTakesNullAndRefusesTypesThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	values := map[string]string{"string": `"x,\u0000"`, "number": `1e999`, "boolean": `true`, "array": `[0]`, "object": `{}`}
	for _, f := range payload.Fields() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Name != "title" {
				accept(t, with(`"`+f.Name+`":null`))
			}
			for kind, value := range values {
				if slices.Contains(f.Types, kind) {
					continue
				}
				in := `{"` + f.Name + `":` + value + `}`
				if f.Name != "title" {
					in = with(`"` + f.Name + `":` + value)
				}
				wantRefused(t, in, "invalid_request", f.Name+" must be "+f.Need, f.Name)
			}
		})
	}
}

func TestTheWhitelistHas25Fields(t *testing.T) {
	t.Parallel()
	want := strings.Fields(`title body subtitle status project session task tool group duration link notificationId tags priority
		persistent timeoutSeconds sound presentation icon imageURL speak voice speed expectReply allowVoiceReply`)
	if len(want) != 25 {
		t.Fatal("the contract has 25")
	}
	got := payload.Names()
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

func TestUnknownFieldsAreForbiddenTogether(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in     string
		fields []string
	}{
		"one":                                  {with(`"command":"rm"`), []string{"command"}},
		"all of them, in order":                {with(`"zeta":1,"alpha":1`), []string{"zeta", "alpha"}},
		"even when null":                       {with(`"webhook":null`), []string{"webhook"}},
		"before a bad value":                   {`{"title":7,"cmd":1}`, []string{"cmd"}},
		"before a missing title":               {`{"cmd":1}`, []string{"cmd"}},
		"before a repeated field":              {with(`"title":"u","cmd":1`), []string{"cmd"}},
		"before a case variant":                {with(`"Body":"u","cmd":1`), []string{"cmd"}},
		"inside speak":                         {with(`"speak":{"text":"x","ssml":"y"}`), []string{"speak.ssml"}},
		"inside and outside together":          {with(`"speak":{"run":1},"run":1`), []string{"run", "speak.run"}},
		"inside a second speak":                {with(`"speak":true,"speak":{"a":1},"speak":{"a":1,"b":2}`), []string{"speak.a", "speak.b"}},
		"a field of speak beside it":           {with(`"lang":"en"`), []string{"lang"}},
		"followUp in three spellings (d 30)":   {with(`"followUp":1,"follow_up":1,"followup":1`), []string{"followUp", "follow_up", "followup"}},
		"the prototype of a JavaScript object": {with(`"__proto__":{},"constructor":1`), []string{"__proto__", "constructor"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, test.in, "forbidden_fields", "Accepted: title, body, ", test.fields...)
			wantRefused(t, test.in, "forbidden_fields", "inside speak: text, voice, speed, lang", test.fields...)
		})
	}
}

func TestDangerousNamesAreSingledOut(t *testing.T) {
	t.Parallel()
	names := strings.Fields(`command commands cmd script scripts shortcut shortcuts exec run callback callbacks webhook url path open
		openApp buttons actions actionIds action reminder snooze audio image template templateName layout app appId metadata
		accentColor followUp follow_up followup`)
	if diff := cmp.Diff(names, payload.Dangerous()); diff != "" {
		t.Errorf("names differ (-want +got):\n%s", diff)
	}
	for _, name := range names {
		wantRefused(t, with(`"harmless":1,"`+name+`":1`), "forbidden_fields", "run, open or restyle anything on a device: "+name+". Accepted",
			"harmless", name)
	}
	_, err := payload.Parse([]byte(with(`"harmless":1`)), maxBody)
	if strings.Contains(fault.From(err).Detail, "safety") {
		t.Errorf("a harmless name is called dangerous: %v", err)
	}
}

func TestRepeatedAndCaseVariantFieldsAreInvalid(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, part, field string }{
		"a field twice":               {`{"title":"a","title":"b"}`, "title is sent more than once", "title"},
		"a field twice, once null":    {with(`"body":"a","body":null`), "body is sent more than once", "body"},
		"a field twice, once escaped": {with(`"\u0062ody":"a","body":"b"`), "body is sent more than once", "body"},
		"a variant alone":             {`{"Title":"a"}`, "Title is not accepted; write it as title", "Title"},
		"a variant beside the field":  {with(`"imageUrl":"https://a.example"`), "write it as imageURL", "imageUrl"},
		"tags in another case":        {with(`"TAGS":["a"]`), "write it as tags", "TAGS"},
		"inside speak twice":          {with(`"speak":{"text":"a","text":"b"}`), "speak.text is sent more than once", "speak.text"},
		"inside speak a variant":      {with(`"speak":{"Voice":"a"}`), "speak.Voice is not accepted; write it as speak.voice", "speak.Voice"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, test.in, "invalid_request", test.part, test.field)
		})
	}
}

func TestBodiesThatAreNotANotification(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"nothing": "", "not JSON": "title=t", "an array": "[]", "null": "null", "a string": `"t"`, "cut off": `{"title":"t"`,
		"two objects": `{"title":"t"}{}`, "invalid UTF-8": "{\"title\":\"\xff\"}", "10,000 deep": strings.Repeat("[", 10_000),
		"10,000 deep inside a field": `{"title":` + strings.Repeat("[", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, in, "invalid_request", "JSON")
		})
	}
	if _, err := payload.FromValue(strictjson.Value{Kind: strictjson.Array}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an array as a value: %v", err)
	}
}

func TestRefusalsNeverRepeatValues(t *testing.T) {
	t.Parallel()
	for _, members := range []string{`"status":"top secret"`, `"link":"http://secret.example"`, `"tags":["secret,"]`, `"icon":"data:secret"`,
		`"priority":"secret"`, `"sound":"/secret"`, `"speak":{"lang":"secret-secret-secret"}`, `"link":"https://[secret"`, `"imageURL":"https://a:secret"`} {
		_, err := payload.Parse([]byte(with(members)), maxBody)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s is answered with %v", members, err)
		}
	}
}

func accept(t *testing.T, in string) payload.Payload {
	t.Helper()
	p, err := payload.Parse([]byte(in), maxBody)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if !json.Valid(p.JSON) {
		t.Errorf("not JSON: %s", p.JSON)
	}
	return p
}

func wantStored(t *testing.T, in, want string) {
	t.Helper()
	if diff := cmp.Diff(want, string(accept(t, in).JSON)); diff != "" {
		t.Errorf("stored payload differs (-want +got):\n%s", diff)
	}
}

func wantRefused(t *testing.T, in, code, part string, fields ...string) {
	t.Helper()
	p, err := payload.Parse([]byte(in), maxBody)
	if err == nil {
		t.Fatalf("accepted as %s, want %s", p.JSON, code)
	}
	got := fault.From(err)
	if got.Code != code || got.Kind != fault.Invalid || !strings.Contains(got.Detail, part) {
		t.Errorf("refused as %v, want %s with %q", got, code, part)
	}
	if diff := cmp.Diff(fields, got.Fields); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}
