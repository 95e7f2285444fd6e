package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/herald-relay/herald/internal/fault"
)

// Migrations run forward only, each in a transaction of its own. A released file is never edited.
//
//go:embed migrations/*.sql
var embedded embed.FS

var migrations = mustSub(embedded, "migrations")

func mustSub(f fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(f, dir)
	if err != nil {
		panic(err)
	}
	return sub
}

// versionTable is where goose keeps which migrations ran.
const versionTable = "schema_versions"

// SchemaVersion is the version of the newest migration.
func SchemaVersion() int64 {
	newest := int64(0)
	for _, name := range migrationFiles() {
		number, _, _ := strings.Cut(path.Base(name), "_")
		if v, err := strconv.ParseInt(number, 10, 64); err == nil {
			newest = max(newest, v)
		}
	}
	return newest
}

// SchemaDigest names the content of all migrations, for caches of migrated databases.
func SchemaDigest() string {
	h := sha256.New()
	for _, name := range migrationFiles() {
		content, err := fs.ReadFile(migrations, name)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func migrationFiles() []string {
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		panic(err)
	}
	return names
}

// migrate brings the schema up to date under an advisory lock, and returns its version. A database whose schema is newer
// than this program is refused and left alone.
func migrate(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) (int64, error) {
	config = config.Copy()
	// Migrations may take long and may want every plan.
	for _, name := range []string{"lock_timeout", "statement_timeout", "plan_cache_mode", "enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		delete(config.RuntimeParams, name)
	}
	db := sql.OpenDB(stdlib.GetConnector(*config))
	defer db.Close()
	newest := SchemaVersion()
	switch have, err := schemaVersion(ctx, db); {
	case err != nil:
		return 0, translate(err)
	case have > newest:
		return 0, newerSchema(have, newest)
	case have == newest:
		return newest, nil
	}
	return newest, upgrade(ctx, db, newest, log)
}

func newerSchema(have, newest int64) error {
	return fault.New(fault.Unavailable, newerSchemaCode,
		"the database has schema %d and this program knows up to %d; a newer Herald has used it: run that one, or restore a backup", have, newest)
}

// schemaVersion reads the version without touching anything; 0 when the database is empty.
func schemaVersion(ctx context.Context, db *sql.DB) (v int64, err error) {
	var exists bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, versionTable).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT COALESCE(max(version_id), 0) FROM `+versionTable+` WHERE is_applied`).Scan(&v)
	return v, err
}

func upgrade(ctx context.Context, db *sql.DB, newest int64, log *slog.Logger) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120), lock.WithUnlockTimeout(1, 10))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithSessionLocker(locker),
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return translate(fmt.Errorf("migrate: %w", err))
	}
	for _, r := range done {
		log.Info("schema migrated", "version", r.Source.Version, "elapsed_ms", r.Duration.Milliseconds())
	}
	have, err := schemaVersion(ctx, db)
	if err == nil && have > newest {
		err = newerSchema(have, newest)
	}
	return translate(err)
}
