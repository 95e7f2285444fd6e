package egress_test

import (
	"errors"
	"fmt"

	"github.com/herald-relay/herald/internal/egress"
)

// A URL is checked when a stranger gives it, for the sake of a good answer, and once more whenever it is called.
func Example() {
	hosts, err := egress.ParseAllowlist([]string{"hooks.example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	guard := egress.New(&egress.Options{Allowlist: hosts})

	u, err := guard.CheckURL("https://HOOKS.example:443/a/../reply")
	fmt.Println(u, err)

	for _, raw := range []string{"https://user@hooks.example/", "https://169.254.169.254/", "https://elsewhere.example/"} {
		_, err := guard.CheckURL(raw)
		if e, ok := errors.AsType[*egress.Error](err); ok {
			fmt.Printf("%s: delivery.url %s\n", e.Kind, e.Detail)
		}
	}

	client := guard.Client() // checks again, resolves, checks all addresses, connects
	_, err = client.Get("https://localhost/")
	fmt.Println(egress.KindOf(err), egress.KindOf(err).Refused())
	// Output:
	// https://hooks.example/reply <nil>
	// malformed: delivery.url must not carry a user name or password
	// not_public: delivery.url must name a public host
	// not_listed: delivery.url names a host that may not be called
	// inner_name true
}
