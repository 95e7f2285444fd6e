package strictjson_test

import (
	"testing"

	"github.com/herald-relay/herald/internal/strictjson"
)

func BenchmarkParse(b *testing.B) {
	in := []byte(`{"title":"Build finished","body":"All 214 tests passed on main after 6 minutes.","project":"herald","session":"s-1",` +
		`"status":"success","priority":"high","tags":["ci","main"],"expectReply":true,"timeoutSeconds":120,"speak":{"text":"done"}}`)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := strictjson.Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}
