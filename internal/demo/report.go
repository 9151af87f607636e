package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// report prints what came of the run: the diff, the result, the counts and where the time went.
func report(ctx context.Context, out io.Writer, s run.State, st *station.Station, repo string, wall time.Duration) {
	fmt.Fprintln(out)
	if log, err := git(ctx, repo, "log", "--oneline", "-2"); err == nil {
		fmt.Fprintf(out, "git log:\n%s\n\n", log)
	}
	if diff, err := git(ctx, repo, "diff", "HEAD~1", "HEAD"); err == nil && diff != "" {
		fmt.Fprintf(out, "The diff:\n%s\n\n", diff)
	}
	if fix := s.Step("fix"); fix != nil && fix.Output != "" {
		fmt.Fprintf(out, "The agent's report:\n%s\n\n", fix.Output)
	}
	if s.Result != nil {
		fmt.Fprintf(out, "Result: %s (%s), %d of %d steps.\n", s.Status, s.Result.FinishReason, s.Result.StepsCompleted,
			s.Result.StepsTotal)
		if s.Result.Error != "" {
			fmt.Fprintf(out, "Error: %s\n", s.Result.Error)
		}
		var names []string
		for _, v := range s.Result.Verified {
			names = append(names, v.Name)
		}
		if len(names) > 0 {
			fmt.Fprintf(out, "Checked by the station, and not by the agent: %s.\n", strings.Join(names, "; "))
		}
	}
	p := parts(ctx, st, wall)
	fmt.Fprintf(out, "Turns %d, tool calls %d, tokens %d in and %d out, events %d (%d bytes, %d on average).\n",
		s.Turns().Len(), s.TotalToolCalls, s.Tokens.Input, s.Tokens.Output, p.events, p.bytes, p.bytes/max(1, p.events))
	fmt.Fprintf(out, "Time %s: model %s, tools %s, waiting for a person %s, everything else %s.\n",
		round(wall), round(p.model), round(p.tools), round(p.person), round(p.rest))
}

// spent says where the time of a run went.
type spent struct {
	model, tools, person, rest time.Duration
	events, bytes              int
}

// parts adds up the durations that the events themselves tell. Tools of one turn may run side by side.
func parts(ctx context.Context, st *station.Station, wall time.Duration) spent {
	var p spent
	js, err := st.Conn().Station(st.Name())
	if err != nil {
		return p
	}
	evs, _, err := js.Journal().Read(ctx, runID, 0)
	if err != nil {
		return p
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, r := range evs {
		p.events++
		p.bytes += len(r.Bytes)
		f, err := events.Decode(r.Bytes)
		if err != nil {
			continue
		}
		payload, err := f.Payload()
		if err != nil {
			continue
		}
		switch d := payload.(type) {
		case *events.TurnFinishedData:
			p.model += ms(d.DurationMS)
		case *events.CallFinishedData:
			p.tools += ms(d.DurationMS)
		case *events.CallFailedData:
			p.tools += ms(d.DurationMS)
		case *events.CheckPassedData:
			p.tools += ms(d.DurationMS)
		case *events.CheckFailedData:
			p.tools += ms(d.DurationMS)
		case *events.GateApprovedData:
			p.person += ms(d.WaitMS)
		}
	}
	p.rest = max(0, wall-p.model-p.tools-p.person)
	return p
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
