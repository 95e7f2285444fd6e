package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/herald-relay/herald/internal/payload"
	"github.com/herald-relay/herald/internal/relay"
)

// The floor: bare net/http, the same JSON decoding, and one insert of the same size, group-committed at the same
// durability. It proves nobody, counts nothing and delivers nothing.

type floorWrite struct {
	id      string
	payload []byte
	done    chan error
}

type floor struct {
	writes chan floorWrite
}

func openFloorDB(dir string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "floor.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, id TEXT NOT NULL, created_at INTEGER NOT NULL, payload BLOB NOT NULL) STRICT`)
	return db, err
}

const floorInsert = `INSERT INTO rows (id, created_at, payload) VALUES (?, ?, ?)`

func serveFloor(ctx context.Context, dir string) error {
	db, err := openFloorDB(dir)
	if err != nil {
		return err
	}
	f := &floor{writes: make(chan floorWrite, 1024)}
	go f.write(db)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/notify", f.notify)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	fmt.Println("ready", l.Addr())
	_ = srv.Serve(l)
	return db.Close()
}

func (f *floor) notify(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<10))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in, err := payload.Parse(body, 32<<10)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	item := floorWrite{string(relay.NewNotificationID(now)), in.JSON, make(chan error, 1)}
	f.writes <- item
	if err := <-item.done; err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, `{"notificationId":%q,"received":true}`, item.id)
}

func (f *floor) write(db *sql.DB) {
	batch := make([]floorWrite, 0, 512)
	for first := range f.writes {
		batch = append(batch[:0], first)
		for len(batch) < cap(batch) && len(f.writes) > 0 {
			batch = append(batch, <-f.writes)
		}
		err := insertAll(db, batch)
		for _, item := range batch {
			item.done <- err
		}
	}
}

func insertAll(db *sql.DB, batch []floorWrite) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	stmt, err := tx.Prepare(floorInsert)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, item := range batch {
		if _, err := stmt.Exec(item.id, time.Now().UnixMilli(), item.payload); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// commitTime is the median time of one durable commit of one row, alone.
func commitTime(dir string) (time.Duration, error) {
	db, err := openFloorDB(dir)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	payload := make([]byte, 300)
	var times []time.Duration
	for range 400 {
		begin := time.Now()
		if err := insertAll(db, []floorWrite{{id: "r_0123456789abcdef01234567", payload: payload}}); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begin))
	}
	return quantile(times, 0.5), nil
}
