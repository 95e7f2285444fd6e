package postgres

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// query is one statement on its way to the database, and what came back.
type query struct {
	what   string // what it does, for errors
	sql    string
	args   []any
	writes bool                 // it may change something
	each   func(pgx.Rows) error // called for every row; nil when there are none, or they do not matter
	count  int64                // rows returned or affected
}

// read consumes the answer.
func (q *query) read(rows pgx.Rows) error {
	defer rows.Close()
	if q.each != nil {
		for rows.Next() {
			if err := q.each(rows); err != nil {
				return fmt.Errorf("%s: %w", q.what, err)
			}
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", q.what, err)
	}
	q.count = rows.CommandTag().RowsAffected()
	return nil
}

// check refuses arguments that the server would choke on, before they can spoil a shared transaction.
func (q *query) check() error {
	for _, a := range q.args {
		texts, ok := a.([]string)
		if s, single := a.(string); single {
			texts, ok = []string{s}, true
		}
		if ok && slices.ContainsFunc(texts, func(s string) bool { return !storable(s) }) {
			return fmt.Errorf("%s: a text holds NUL or invalid UTF-8", q.what)
		}
	}
	return nil
}

// one scans the only row of a query into fields.
func one(fields ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error { return rows.Scan(fields...) }
}

// list appends every row of a query to out.
func list[T any](out *[]T, scan func(pgx.Rows, *T) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var v T
		if err := scan(rows, &v); err != nil {
			return err
		}
		*out = append(*out, v)
		return nil
	}
}
