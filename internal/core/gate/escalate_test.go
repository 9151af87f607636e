package gate

import (
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestEscalation(t *testing.T) {
	t.Parallel()
	ok := runtest.Step("ok")
	ok.Flow = &events.StepFlow{Kind: events.ControlApproval, Approval: &events.StepApproval{Approvers: []string{"anna"}, TimeoutMS: 1000,
		OnTimeout: events.ExpiryEscalates, EscalateTo: []string{"lead"}}}
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(ok), runtest.Ready("ok"))
	look := func(now time.Time) []events.Payload {
		s := b.State()
		return judgeStep(s, s.Step("ok"), now, events.GateTerms{})
	}
	now := runtest.Start
	b.Append(look(now)...)
	first := *b.State().Gates[0]
	late := now.Add(2 * time.Second)
	may := func(by string) string {
		s := b.State()
		_, err := Answer(s, late, Reply{Gate: s.Gates[len(s.Gates)-1].ID, Decision: "approve", By: by, Assurance: events.AssuranceSubject, Input: 9})
		if bad, is := errors.AsType[*Refused](err); is {
			return bad.Code
		}
		return ""
	}
	t.Run("GATE-7 a gate that no one answered in time is followed by one that others may answer, too", func(t *testing.T) {
		if first.OnExpiry != events.ExpiryEscalates || first.ExpiresAt.IsZero() || len(look(now)) != 0 {
			t.Fatalf("%+v", first)
		}
		b.AppendAt(late, Expired(b.State(), late, nil)...)
		if say, err := lifecycle.Rejected(b.State(), late); len(say) != 0 || err != nil {
			t.Fatalf("the run is held: %v, %v", say, err)
		}
		b.AppendAt(late, look(late)...)
		s := b.State()
		if len(s.Gates) != 2 || s.Gates[1].Status != run.GatePending || !s.Gates[1].ExpiresAt.IsZero() || len(look(late)) != 0 {
			t.Fatalf("%+v", s.Gates)
		}
		if got := []string{may("eve"), may("anna"), may("lead")}; got[0] != "not_approver" || got[1] != "" || got[2] != "" {
			t.Errorf("eve, anna and lead: %q", got)
		}
	})
}
