package mcpevents

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
)

const pageSize = 100 // event types in one answer of events/list

type listResult struct {
	Events     []descriptor `json:"events"`
	NextCursor string       `json:"nextCursor,omitempty"`
}

// list serves events/list: what the caller may know of, sorted by name over all families.
func (s *Server) list(ctx context.Context, r Request) (any, error) {
	m, err := readMembers(r.Params, "params")
	if err != nil {
		return nil, err
	}
	after, err := pageAfter(m)
	if err != nil {
		return nil, err
	}
	all, err := s.descriptors(ctx, r)
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearchFunc(all, after, func(d descriptor, name string) int { return cmp.Compare(d.Name, name) })
	if found {
		i++
	}
	result := listResult{Events: all[i:]}
	if len(result.Events) > pageSize {
		result.Events = result.Events[:pageSize]
		result.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(result.Events[pageSize-1].Name))
	}
	return result, nil
}

// pageAfter reads a page cursor: the last name of the page before.
func pageAfter(m members) (string, error) {
	c, err := m.cursor(false)
	if err != nil || !c.Set {
		return "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(c.Text)
	if err != nil || len(name) == 0 {
		return "", invalid("cursor: not one of this server's")
	}
	return string(name), nil
}

func (s *Server) descriptors(ctx context.Context, r Request) ([]descriptor, error) {
	all := []descriptor{}
	for _, f := range s.families {
		caller, err := f.admit(ctx, r.Caller)
		if err != nil && isRefusal(err) {
			continue
		}
		if err != nil {
			return nil, internal("admit the caller", err)
		}
		for _, t := range f.catalog(caller.Ledger).Types() {
			d := t.descriptor
			if d.Delivery = f.modesFor(t, r.Dialect); len(d.Delivery) > 0 {
				all = append(all, d)
			}
		}
	}
	slices.SortFunc(all, func(a, b descriptor) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
