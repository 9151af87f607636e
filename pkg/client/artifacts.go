package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Artifacts are what the runs of the station made.
type Artifacts struct{ c *Client }

// Artifacts returns the artifacts of the station's runs.
func (c *Client) Artifacts() Artifacts { return Artifacts{c} }

// Artifact is what a run made, with where it stands now.
type Artifact struct {
	events.Artifact
	// ExpiresAt is nil while the run goes on, and for what does not expire.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// Expired is true once that time is over: the record stays, the bytes do not.
	Expired bool `json:"expired,omitempty"`
	// Workspace of the run, below the workspace root of its toolrunner.
	Workspace string `json:"workspace"`
}

// ErrExpired means that an artifact was kept as long as it was to be. Its record is still in the log.
var ErrExpired = errors.New("expired")

// ErrDamaged means that stored bytes are not those that were stored: their digest is another.
var ErrDamaged = kernel.ErrDamagedObject

// ElsewhereError says that the bytes of an artifact are in the workspace of its run alone (storage mode local).
type ElsewhereError struct{ ID, Workspace, Path string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("artifact %s is kept in the workspace alone: it is %s/%s below the workspace root of the toolrunner", e.ID, e.Workspace, e.Path)
}

// List lists what a run made, sorted by key: of each path the newest content. ErrNotFound where there is no such run.
func (as Artifacts) List(ctx context.Context, runID string) ([]Artifact, error) {
	s, err := as.c.State(ctx, runID)
	if err != nil {
		return nil, err
	}
	out := []Artifact{}
	for _, a := range artifact.Latest(s) {
		out = append(out, standing(s, a, time.Now()))
	}
	if r, ok, err := as.report(ctx, s); err != nil || !ok {
		return out, err
	} else {
		return append(out, standing(s, r, time.Now())), nil
	}
}

// reportName is the report of a run that no one watched: the station makes it when the run has ended.
const reportName = "report.md"

// report is the record of the report of a run; ok is false where it has none.
func (as Artifacts) report(ctx context.Context, s run.State) (a events.Artifact, ok bool, err error) {
	if s.Options.Mode == "" || !s.Status.Ended() {
		return a, false, nil
	}
	i, err := as.c.Runs().Get(ctx, s.HarnessID)
	if errors.Is(err, ErrNotFound) || err == nil && i.Report == nil {
		return a, false, nil // it ended a moment ago
	}
	if err != nil {
		return a, false, err
	}
	return events.Artifact{ID: "report", Type: "report", Name: reportName, Size: i.Report.Size, SHA256: i.Report.SHA256,
		ContentType: "text/markdown", CreatedAt: *s.EndedAt, Key: "runs/" + s.HarnessID + "/" + reportName,
		Kept: events.StoredWithLog, Session: s.Identity.Session, Run: s.HarnessID}, true, nil
}

func standing(s run.State, a events.Artifact, now time.Time) Artifact {
	out := Artifact{Artifact: a}
	if s.Created != nil {
		out.Workspace = s.Created.Workspace
	}
	if at := artifact.ExpiresAt(s.EndedAt, a); !at.IsZero() {
		out.ExpiresAt, out.Expired = &at, !now.Before(at)
	}
	return out
}

// Open opens an artifact of a run by its id, or by its path, key, or a name that only one has. What is read was checked
// against its digest before. Its errors are ErrNotFound, ErrExpired, ErrDamaged and *ElsewhereError; the record is
// returned with the last three.
func (as Artifacts) Open(ctx context.Context, runID, id string) (Artifact, io.ReadCloser, error) {
	s, err := as.c.State(ctx, runID)
	if err != nil {
		return Artifact{}, nil, err
	}
	found, ok := artifact.Find(s, id)
	if !ok && (id == "report" || id == reportName) {
		if found, ok, err = as.report(ctx, s); err != nil {
			return Artifact{}, nil, err
		}
	}
	if !ok {
		return Artifact{}, nil, notFound("artifact", id)
	}
	a := standing(s, found, time.Now())
	content, err := as.Content(ctx, a)
	return a, content, err
}

// Content opens an artifact that List returned, without a look at its run. Its errors are those of Open.
func (as Artifacts) Content(ctx context.Context, a Artifact) (io.ReadCloser, error) {
	data, err := as.bytesOf(ctx, a)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// bytesOf fetches from wherever an artifact is kept.
func (as Artifacts) bytesOf(ctx context.Context, a Artifact) ([]byte, error) {
	var data []byte
	var err error
	store := as.c.st.Artifacts()
	switch {
	case a.Kept == events.StoredWithLog:
		data, err = as.c.st.Blobs().Get(ctx, a.Ref())
	case a.Kept == events.StoredInWorkspace || store == nil:
		return nil, &ElsewhereError{ID: a.ID, Workspace: a.Workspace, Path: a.Path}
	default:
		data, err = store.Get(ctx, a.Run, a.Ref())
	}
	switch {
	case errors.Is(err, kernel.ErrNotFound) && a.Expired:
		return nil, fmt.Errorf("artifact %s: %w at %s", a.ID, ErrExpired, a.ExpiresAt.Format(time.RFC3339))
	case errors.Is(err, kernel.ErrNotFound):
		return nil, fmt.Errorf("the bytes of artifact %s are not in the store of this station: %w", a.ID, ErrNotFound)
	}
	return data, err
}
