package planner

import (
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/services/planner/tasks"
)

func TestDamage(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-2 on a damaged log no run begins, and whoever asks learns why", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(task("r1", "s", ""))
		d.damage = errors.New("loss 0a1b2c: the last 261 messages are lost")
		if r := d.refused(task("r2", "", ""), tasks.CodeDamaged); !strings.Contains(r.Reason, "0a1b2c") || r.Hint == "" {
			t.Errorf("%+v", r)
		}
		if s := d.state("r2"); s.Sequence != 0 {
			t.Errorf("it has %d events", s.Sequence)
		}
		d.must(task("r1", "s", "")) // a run that has begun goes on
		d.damage = nil
		d.must(task("r2", "", ""))
	})
}
