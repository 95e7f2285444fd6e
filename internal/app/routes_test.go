package app_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herald-relay/herald/internal/testkit"
)

var documentedRoute = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func TestEveryRouteIsDocumentedAndEveryDocumentedRouteExists(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/wire/routes.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range documentedRoute.FindAllStringSubmatch(string(data), -1) {
		documented = append(documented, m[1])
	}
	r := testkit.New(t, testkit.Options{})
	if diff := cmp.Diff(r.App.Routes(), documented); diff != "" {
		t.Errorf("docs/wire/routes.md differs from the program (-program +docs):\n%s", diff)
	}
}
