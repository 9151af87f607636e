package station

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestNurse(t *testing.T) {
	t.Parallel()
	full := errors.New("write error: no space left on device")
	t.Run("SAFE-14 a server whose write has failed is started again once its disk has room, which needs no one, and is told once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			begin, restarted := time.Now(), time.Duration(0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var told []string
			since := func() time.Duration { return time.Since(begin) }
			n := nurse{
				ailment: func() error {
					if since() < 10*time.Minute || restarted > 0 {
						return nil
					}
					return full
				},
				hasSpace: func() bool { return since() > 20*time.Minute },
				restart:  func() error { restarted = since(); return nil },
				report:   func(err error) { told = append(told, fmt.Sprint(err)) },
			}
			if err := n.sit(ctx, healthEvery); err != nil || restarted < 20*time.Minute || restarted > 21*time.Minute || !slices.Equal(told, []string{full.Error(), "<nil>"}) {
				t.Errorf("%v, restarted after %s, told %q", err, restarted, told)
			}
		})
	})
	t.Run("SAFE-14 one that stays ill is not started again all the time, and one that does not start ends it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
			defer cancel()
			starts, fail := 0, error(nil)
			n := nurse{ailment: func() error { return full }, hasSpace: func() bool { return true }, report: func(error) {},
				restart: func() error { starts++; return fail }}
			if err := n.sit(ctx, healthEvery); err != nil || starts < 9 || starts > 11 {
				t.Errorf("%v, %d starts in ten minutes", err, starts)
			}
			fail = errors.New("the port is taken")
			if err := n.sit(t.Context(), healthEvery); !errors.Is(err, fail) {
				t.Errorf("%v", err)
			}
		})
	})
}
