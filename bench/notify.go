package main

import (
	"math/rand/v2"
	"syscall"
	"time"
)

const connections = 64

// benchNotify compares durable POST /v1/notify at 64 connections with the floor, round by round.
func benchNotify(r *report, s scale) error {
	return inTemp(func(dir string) error {
		boxes, err := seed(dir, connections, 0)
		if err != nil {
			return err
		}
		relay, err := start("serve-relay", dir)
		if err != nil {
			return err
		}
		defer relay.stop()
		floor, err := start("serve-floor", dir)
		if err != nil {
			return err
		}
		defer floor.stop()

		body := typicalBody("")
		ours := func(worker, _ int) []byte { return request("POST", "/v1/notify", boxes[worker].key, body) }
		one := func(_, _ int) []byte { return request("POST", "/v1/notify", boxes[0].key, body) }
		var many, single, floorRate, ourRate []float64
		for round := range s.rounds + 1 { // the first warms up
			f, _, err := hammer(floor.addr, connections, s.seconds, 202, ours)
			if err != nil {
				return err
			}
			m, _, err := hammer(relay.addr, connections, s.seconds, 202, ours)
			if err != nil {
				return err
			}
			o, _, err := hammer(relay.addr, connections, s.seconds, 202, one)
			if err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			many, single = append(many, m/f), append(single, o/f)
			floorRate, ourRate = append(floorRate, f), append(ourRate, m)
		}
		r.note("floor, notifications a second", "%.0f", quantile(floorRate, 0.5))
		r.note("relay, notifications a second", "%.0f", quantile(ourRate, 0.5))
		r.least("durable notify to floor, 64 keys", quantile(many, 0.5), 0.6, "")
		r.least("durable notify to floor, one key", quantile(single, 0.5), 0.6, "")
		return nil
	})
}

// benchStored compares a store of a million notifications with an empty one of as many mailboxes.
func benchStored(r *report, s scale) error {
	return inTemp(func(emptyDir string) error {
		return inTemp(func(fullDir string) error {
			empty, err := measured(emptyDir, s.mailboxes, 0)
			if err != nil {
				return err
			}
			defer empty.relay.stop()
			r.note("filling the store", "%d notifications over %d mailboxes", s.stored, s.mailboxes)
			full, err := measured(fullDir, s.mailboxes, s.stored)
			if err != nil {
				return err
			}
			defer full.relay.stop()
			return compareStores(r, s, empty, full)
		})
	})
}

// target is a relay under load with the mailboxes it serves.
type target struct {
	relay *process
	boxes []box
}

func measured(dir string, mailboxes, notifications int) (*target, error) {
	boxes, err := seed(dir, mailboxes, notifications)
	if err != nil {
		return nil, err
	}
	syscall.Sync() // what filled the store must not be written back while it is measured
	p, err := start("serve-relay", dir)
	return &target{p, boxes}, err
}

func compareStores(r *report, s scale, empty, full *target) error {
	for _, t := range []*target{empty, full} { // some to read in both, and a warm start
		if err := t.sendKnown(min(len(t.boxes), 2000)); err != nil {
			return err
		}
	}
	var notify, read []float64
	for range s.rounds {
		times := map[*target][2]time.Duration{}
		for _, t := range []*target{empty, full} {
			_, sent, err := hammer(t.relay.addr, 16, s.seconds, 202, t.notify)
			if err != nil {
				return err
			}
			_, got, err := hammer(t.relay.addr, 16, s.seconds, 200, t.receipt)
			if err != nil {
				return err
			}
			times[t] = [2]time.Duration{sent, got}
		}
		r.note("p50 of notify, empty and full; of receipt reads", "%s %s; %s %s", times[empty][0], times[full][0], times[empty][1], times[full][1])
		notify = append(notify, float64(times[full][0])/float64(times[empty][0]))
		read = append(read, float64(times[full][1])/float64(times[empty][1]))
	}
	r.most("notify with many stored to empty", quantile(notify, 0.5), 1.2, "x")
	r.most("receipt read with many stored to empty", quantile(read, 0.5), 1.2, "x")
	return nil
}

func (t *target) notify(_, _ int) []byte {
	return request("POST", "/v1/notify", t.boxes[rand.IntN(len(t.boxes))].key, typicalBody(""))
}

// receipt reads a notification of before where there is one; every mailbox may be read 600 times in ten minutes.
func (t *target) receipt(_, _ int) []byte {
	b := &t.boxes[rand.IntN(min(len(t.boxes), 2000))]
	if len(b.agentIDs) > 0 && rand.IntN(2) == 0 {
		return request("GET", "/v1/receipts/"+b.agentIDs[rand.IntN(len(b.agentIDs))], b.key, nil)
	}
	return request("GET", "/v1/receipts/known", b.key, nil)
}
