package cli_test

import (
	"strings"
	"testing"
)

func TestSpacePlan(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"":                                      "--runs-per-day",
		"--runs-per-day 0":                      "more than 0",
		"--runs-per-day NaN":                    "from 0 to",
		"--runs-per-day +Inf":                   "from 0 to",
		"--runs-per-day=-1":                     "from 0 to",
		"--runs-per-day 5 --steps NaN":          "from 0 to",
		"--runs-per-day 5 --peak 0.5":           "--peak",
		"--runs-per-day 5 --days 0":             "--days",
		"--runs-per-day 5 --replicas 2":         "1 or 3",
		"--runs-per-day 1e9 --steps 1e9":        "exabyte",
		"--runs-per-day 1e9 --days 1e9":         "exabyte",
		"--runs-per-day 5 --text 1e9 --steps x": "invalid argument",
	} {
		t.Run("PLUS-24 a plan is not made of "+flags, func(t *testing.T) {
			t.Parallel()
			o := inspan(t, append([]string{"space", "plan"}, strings.Fields(flags)...)...)
			if o.code != 2 || !strings.Contains(o.err, want) || o.out != "" {
				t.Errorf("%d %s %s", o.code, o.out, o.err)
			}
		})
	}
	t.Run("PLUS-24 a plan has the bytes of a run, of a day and of a server", func(t *testing.T) {
		t.Parallel()
		o := inspan(t, "space", "plan", "--runs-per-day", "1000", "--steps", "10", "--text", "1000", "--days", "30", "--json")
		if o.code != 0 || !strings.Contains(o.out, `"bytes_per_run": 125000`) || !strings.Contains(o.out, `"bytes_per_day": 125000000`) {
			t.Errorf("%d %s %s", o.code, o.out, o.err)
		}
	})
}
