package store

import (
	"time"

	"github.com/herald-relay/herald/internal/ledger"
	"github.com/herald-relay/herald/internal/relay"
)

// Workspaces holds teams' ledgers and who may use them. Two Updates that append to one workspace behave as if one ran
// after the other.
type Workspaces interface {
	// Create adds w with its catalog. A name that exists is Conflict with code "name_taken".
	Create(w ledger.Workspace) error
	// Get is NotFound when there is none.
	Get(id ledger.WorkspaceID) (ledger.Workspace, error)
	// ByName is NotFound when there is none.
	ByName(name string) (ledger.Workspace, error)
	// List returns all, oldest first, without their catalogs.
	List() ([]ledger.Workspace, error)
	// SetCatalog replaces the catalog of revision, and returns the new revision. Conflict when the workspace has
	// another revision by now, NotFound when it is gone.
	SetCatalog(id ledger.WorkspaceID, catalog []byte, revision int64) (int64, error)
}

// Members holds which people belong to which workspaces. Deleting a person removes their memberships.
type Members interface {
	// Add makes a person a member; m.Primary is ignored: the first workspace of a person is their primary one. Conflict
	// when they are one, NotFound when the workspace or the person is gone.
	Add(m ledger.Member) error
	// List returns a workspace's members, in the order in which they joined.
	List(w ledger.WorkspaceID) ([]ledger.Member, error)
	// Of returns a person's memberships: the primary one first, then in the order of joining.
	Of(p relay.PersonID) ([]ledger.Member, error)
	// SetPrimary makes that workspace answer for the person. NotFound when they are no member.
	SetPrimary(w ledger.WorkspaceID, p relay.PersonID) error
	// Remove ends a membership; when it was the primary one, the oldest other becomes it. NotFound when there is none.
	Remove(w ledger.WorkspaceID, p relay.PersonID) error
}

// WorkspaceKeys holds applications' rights.
type WorkspaceKeys interface {
	// Create adds k. An active key of the workspace with that name is Conflict with code "name_taken". NotFound when the
	// workspace is gone.
	Create(k ledger.Key) error
	// Get is NotFound when the workspace has no such key.
	Get(w ledger.WorkspaceID, id ledger.KeyID) (ledger.Key, error)
	// List returns a workspace's keys, oldest first, revoked ones included.
	List(w ledger.WorkspaceID) ([]ledger.Key, error)
	// Revoke ends the key at at; the first time stays. NotFound when there is none.
	Revoke(w ledger.WorkspaceID, id ledger.KeyID, at time.Time) error
	// Touch sets LastUsedAt. Absent is no error.
	Touch(w ledger.WorkspaceID, id ledger.KeyID, at time.Time) error
}

// EntryFilter chooses entries. The zero value chooses all.
type EntryFilter struct {
	After   int64    // only sequences greater than this
	Names   []string // only these names; empty is any
	Subject string   // only this subject; "" is any
	Limit   int      // at most so many; must be positive
}

// Entries holds what applications appended. Sequences of a workspace rise in the order of commit: a reader who has seen
// one never finds a lower one later that was not there (contract, Reliability).
type Entries interface {
	// Append stores the entries in their order and sets each Sequence to the workspace's next. An entry whose id the
	// workspace has is not stored again: its Sequence becomes that of the stored one, and it is listed in known, by its
	// index. NotFound when the workspace is gone.
	Append(w ledger.WorkspaceID, entries []ledger.Entry) (known map[int]ledger.Entry, err error)
	// Get is NotFound when the workspace has none with that id.
	Get(w ledger.WorkspaceID, id ledger.EntryID) (ledger.Entry, error)
	// List returns what f chooses, in order of Sequence. How long it takes depends on what it returns, not on how much
	// there is.
	List(w ledger.WorkspaceID, f EntryFilter) ([]ledger.Entry, error)
	// Newest is the highest Sequence that was given, 0 when none was.
	Newest(w ledger.WorkspaceID) (int64, error)
	// Forget removes up to limit entries recorded before cutoff, oldest first, and returns how many.
	Forget(cutoff time.Time, limit int) (int, error)
}
