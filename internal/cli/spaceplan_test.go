package cli_test

import (
	"encoding/json"
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

func TestSpacePlanRoles(t *testing.T) {
	t.Parallel()
	load := []string{"space", "plan", "--runs-per-day", "20000", "--steps", "12"}
	with := func(more ...string) []string { return append(load[:len(load):len(load)], more...) }
	t.Run("PLUS-24 a plan without times of model and tool has no roles", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{load, with("--json")} {
			if o := inspan(t, args...); o.code != 0 || strings.Contains(o.out, "gatekeeper") || strings.Contains(o.out, "roles") {
				t.Errorf("%d %s %s", o.code, o.out, o.err)
			}
		}
	})
	t.Run("PLUS-24 a plan with times of model and tool has the processes of each role", func(t *testing.T) {
		t.Parallel()
		o := inspan(t, with("--model-seconds", "20", "--tool-seconds", "5", "--json")...)
		var plan struct {
			Steps float64 `json:"peak_steps_per_second"`
			Cores float64 `json:"cores_per_server"`
			Roles []struct {
				Role      string
				Limit     string
				Processes int
				Of        float64 `json:"steps_per_second_of_one"`
				UnderWay  float64 `json:"under_way"`
			}
		}
		if err := json.Unmarshal([]byte(o.out), &plan); err != nil || o.code != 0 {
			t.Fatalf("%d %v %s", o.code, err, o.err)
		}
		var names []string
		for _, r := range plan.Roles {
			names = append(names, r.Role)
		}
		if got := strings.Join(names, " "); got != "planner gatekeeper executor toolrunner persister" {
			t.Fatalf("got %s", got)
		}
		// 11.1 steps/s are 12.0 turns a second, of which each is under way for 20 s and a little more.
		e := plan.Roles[2]
		if e.Limit != "workers" || e.UnderWay < 240 || e.UnderWay > 255 || e.Processes != 6 || plan.Cores <= 0 {
			t.Errorf("%+v", plan)
		}
		for _, r := range plan.Roles {
			if r.Processes < 1 || float64(r.Processes)*r.Of < plan.Steps {
				t.Errorf("%+v do not carry %v steps/s", r, plan.Steps)
			}
		}
		more := inspan(t, with("--model-seconds", "20", "--tool-seconds", "5", "--executor-workers", "400")...)
		if more.code != 0 || !strings.Contains(more.out, "CPU of each server") || !strings.Contains(more.out, "PROCESSES") {
			t.Errorf("%d %s %s", more.code, more.out, more.err)
		}
	})
	t.Run("PLUS-24 a load above what a station carries needs more stations", func(t *testing.T) {
		t.Parallel()
		heavy := []string{"space", "plan", "--runs-per-day", "1e7", "--steps", "12", "--model-seconds", "20"}
		if o := inspan(t, heavy...); o.code != 0 || !strings.Contains(o.out, "more stations") {
			t.Errorf("%d %s %s", o.code, o.out, o.err)
		}
		if o := inspan(t, append(heavy, "--steps-per-second", "20")...); o.code != 0 || strings.Contains(o.out, "more stations") {
			t.Errorf("each of many stations carries its part: %d %s %s", o.code, o.out, o.err)
		}
	})
	for flags, want := range map[string]string{
		"--model-seconds NaN": "from 0 to", "--tool-seconds=-1": "from 0 to", "--model-seconds 1 --executor-workers 0": "above 0",
		"--model-seconds 1 --toolrunner-workers=-1": "from 0 to",
	} {
		t.Run("PLUS-24 processes are not computed of "+flags, func(t *testing.T) {
			t.Parallel()
			o := inspan(t, with(strings.Fields(flags)...)...)
			if o.code != 2 || !strings.Contains(o.err, want) || o.out != "" {
				t.Errorf("%d %s %s", o.code, o.out, o.err)
			}
		})
	}
}
