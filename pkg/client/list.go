package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	runPrefix   = "run."
	agentPrefix = topology.AgentKeys
	// lookers is how many rows are fetched side by side.
	lookers = 32
)

// Runs lists the runs of the station, the newest first (LIFE-8). The index follows the log within about a second.
func (c *Client) Runs(ctx context.Context) ([]run.Info, error) {
	infos, err := rows[run.Info](ctx, c.st.KV(topology.StateBucket), runPrefix)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	slices.SortStableFunc(infos, func(a, b run.Info) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return infos, nil
}

// Run returns a run's row of the index, made from the log where the index does not have it yet; ErrNotFound where
// there is no such run (LIFE-9).
func (c *Client) Run(ctx context.Context, runID string) (run.Info, error) {
	if err := checkRun(runID); err != nil {
		return run.Info{}, err
	}
	b, err := c.st.KV(topology.StateBucket).Get(ctx, runPrefix+runID)
	if errors.Is(err, kernel.ErrNotFound) {
		s, err := c.State(ctx, runID)
		if err != nil {
			return run.Info{}, err
		}
		return run.InfoOf(s), nil
	}
	if err != nil {
		return run.Info{}, fmt.Errorf("run %s: %w", runID, err)
	}
	var i run.Info
	if err := json.Unmarshal(b, &i); err != nil {
		return run.Info{}, fmt.Errorf("row of run %s: %w", runID, err)
	}
	return i, nil
}

// Waiting is a gate that waits, with its run.
type Waiting struct {
	Run  run.Info  `json:"run"`
	Gate *run.Gate `json:"gate"`
}

// Gates lists the gates that wait for an answer, the oldest first (GATE-14).
func (c *Client) Gates(ctx context.Context) ([]Waiting, error) {
	infos, err := c.Runs(ctx)
	if err != nil {
		return nil, err
	}
	waiting := []Waiting{}
	for _, i := range infos {
		for _, g := range i.Gates {
			waiting = append(waiting, Waiting{Run: i, Gate: g})
		}
	}
	slices.SortStableFunc(waiting, func(a, b Waiting) int { return a.Gate.CreatedAt.Compare(b.Gate.CreatedAt) })
	return waiting, nil
}

// Agents lists the registered agents by name.
func (c *Client) Agents(ctx context.Context) ([]events.Agent, error) {
	agents, err := rows[events.Agent](ctx, c.st.KV(topology.ConfigBucket), agentPrefix)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return agents, nil
}

// rows fetches all values below a prefix, in the order of their keys. One that is deleted meanwhile is left out.
func rows[T any](ctx context.Context, kv kernel.KV, prefix string) ([]T, error) {
	keys, err := kv.Keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	found, errs := make([]*T, len(keys)), make([]error, len(keys))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(lookers, len(keys)) {
		workers.Go(func() {
			for i := range next {
				found[i], errs[i] = row[T](ctx, kv, keys[i])
			}
		})
	}
	for i := range keys {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := make([]T, 0, len(keys))
	for _, v := range found {
		if v != nil {
			all = append(all, *v)
		}
	}
	return all, nil
}

func row[T any](ctx context.Context, kv kernel.KV, key string) (*T, error) {
	b, err := kv.Get(ctx, key)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("row %s: %w", key, err)
	}
	return v, nil
}

// Letter is an entry of the dead-letter list: input that the station refused.
type Letter struct {
	// Seq is its number in the list, By the role that refused it.
	Seq uint64         `json:"seq"`
	By  events.Service `json:"by"`
	// Subject it came on, and when.
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	Run     string    `json:"runid,omitempty"`
	// Code is stable for programs, Reason and Hint are for people.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
	// Data is the message as it came, shortened to 8 KiB; DataBytes its whole length.
	Data      string `json:"data"`
	DataBytes int    `json:"data_bytes"`
	Token     string `json:"token,omitempty"`
	// Header tells how the message is to be read.
	Header map[string]string `json:"header,omitempty"`
	// Replayed is when the letter was said again and taken; nil where it was not.
	Replayed *time.Time `json:"replayed,omitempty"`
}

// Dead lists what the station refused, the oldest first. The list keeps a week.
func (c *Client) Dead(ctx context.Context) ([]Letter, error) {
	all, _, err := c.letters(ctx)
	return all, err
}

// letters reads the list and the number of its last entry, which may be no letter.
func (c *Client) letters(ctx context.Context) (all []Letter, last uint64, err error) {
	all = []Letter{}
	again := map[string]time.Time{}
	for more := true; more; {
		var page []jet.Refused
		if page, more, err = c.st.Dead(ctx, last); err != nil {
			return nil, 0, fmt.Errorf("read the dead-letter list: %w", err)
		}
		for _, r := range page {
			d := r.Letter
			if last = r.Seq; d.Code == kernel.CodeReplayed {
				again[d.Token] = d.Time
				continue
			}
			all = append(all, Letter{Seq: r.Seq, By: r.By, Subject: d.Subject, Time: d.Time, Run: d.Run, Code: d.Code, Reason: d.Reason,
				Hint: d.Hint, Data: d.Data, DataBytes: d.DataBytes, Token: d.Token, Header: d.Header})
		}
	}
	for i := range all {
		if at, ok := again[kernel.ReplayToken(fmt.Sprint(all[i].Seq))]; ok {
			all[i].Replayed = &at
		}
	}
	return all, last, nil
}

// Object fetches what an event refers to, with its digest checked; ErrNotFound where it is not there.
func (c *Client) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	b, err := c.st.Blobs().Get(ctx, ref)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, notFound("object", ref.SHA256)
	}
	return b, err
}
