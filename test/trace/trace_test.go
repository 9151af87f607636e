package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	for test, want := range map[string][]string{
		"TestGate/GATE-10_a_gate":                             {"GATE-10"},
		"TestGate/GATE-1_GATE-2_PROP-10_gates":                {"GATE-1", "GATE-2", "PROP-10"},
		"TestGate/GATE-1_first/GATE-1_again":                  {"GATE-1"},
		"TestGate/GATE-1#01":                                  {"GATE-1"},
		"TestGate/an_id_at_the_end,_GATE-1":                   {"GATE-1"},
		"TestGate/xGATE-1,_GATE-1B,_A-GATE-1,_GATE-1-2":       nil,
		"TestGate/GATE-4ac_GATE-4a_a_gate":                    {"GATE-4a", "GATE-4c"},
		"TestGate/nothing":                                    nil,
		"TestFold/EVT-4_PROP-4:_written_(EVT-3)_and_gate-1 ü": {"EVT-4", "PROP-4", "EVT-3"},
	} {
		if got := Named(test); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", test, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("# why\n\nLIFE-1..3,7\n  a one part\n  b another\nWORK-1\n")
	want := []Row{{ID: "LIFE-1"}, {ID: "LIFE-2"}, {ID: "LIFE-3"}, {"LIFE-7", []Clause{{'a', "one part"}, {'b', "another"}}}, {ID: "WORK-1"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"LIFE", "LIFE-", "LIFE-x", "LIFE-3..1", "LIFE-0", "LIFE-1,1", "LIFE-1..9999", " a too early", "LIFE-1\n b not the first",
		"LIFE-1\n a", "LIFE-1\n aa two letters"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, got)
		}
	}
	all, err := Parse(ids)
	if err != nil || len(all) < 150 {
		t.Errorf("ids.txt: got %d requirements, %v", len(all), err)
	}
}

const stream = `go: downloading something
{"Action":"pass","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-10_ten"}
{"Action":"pass","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-2_two"}
{"Action":"fail","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-2_GATE-3_two_three"}
{"Action":"skip","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-4_four"}
{"Action":"run","Package":"github.com/inspan/inspan/pkg/a","Test":"TestA/GATE-5_five"}
{"Action":"fail","Package":"github.com/inspan/inspan/pkg/a"}
`

func TestPrint(t *testing.T) {
	t.Parallel()
	wanted := []Row{{ID: "GATE-1"}, {ID: "GATE-2"}, {ID: "GATE-3"}, {ID: "GATE-4"}, {ID: "GATE-5"}, {ID: "GATE-10"}}
	t.Run("skipped, unfinished, failed and unnamed prove nothing", func(t *testing.T) {
		t.Parallel()
		res, err := Read(strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ok := Print(&out, wanted, nil, res)
		want := `GATE-1    MISSING
GATE-2    FAILED   pkg/a.TestA/GATE-2_GATE-3_two_three
GATE-3    FAILED   pkg/a.TestA/GATE-2_GATE-3_two_three
GATE-4    MISSING
GATE-5    MISSING
GATE-10         1  pkg/a.TestA/GATE-10_ten
1 of 6 requirements proven, 0 of these with doubles only, 0 partly, 2 failed, 3 missing; 2 tests passed
`
		if ok || out.String() != want {
			t.Errorf("got %v\n%s\nwant false\n%s", ok, out.String(), want)
		}
	})
	t.Run("all proven", func(t *testing.T) {
		t.Parallel()
		if !Print(&strings.Builder{}, []Row{{ID: "GATE-10"}}, nil, passing(t, "TestA/GATE-10_ten")) {
			t.Error("got false, want true")
		}
	})
	t.Run("a package that does not build is not proven", func(t *testing.T) {
		t.Parallel()
		res, err := Read(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA/GATE-1_one"}` + "\n" +
			`{"Action":"fail","Package":"q","FailedBuild":"q"}`))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if Print(&out, []Row{{ID: "GATE-1"}}, nil, res) || !strings.Contains(out.String(), "BROKEN   q") {
			t.Errorf("got proven, or no word about q:\n%s", out.String())
		}
	})
	t.Run("a stream without tests is an error", func(t *testing.T) {
		t.Parallel()
		if _, err := Read(strings.NewReader("nothing\n")); err == nil {
			t.Error("got no error")
		}
	})
}

// passing is what a stream says in which these tests of package pkg/a passed.
func passing(t *testing.T, tests ...string) *Results {
	t.Helper()
	var b strings.Builder
	for _, name := range tests {
		fmt.Fprintf(&b, `{"Action":"pass","Package":"github.com/inspan/inspan/pkg/a","Test":%q}`+"\n", name)
	}
	res, err := Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestClauses(t *testing.T) {
	t.Parallel()
	wanted, err := Parse("GATE-1\n  a waits\n  b goes on\nGATE-2\n  a real\n  b stands in\nGATE-3\nGATE-4\n  a nothing\n")
	if err != nil {
		t.Fatal(err)
	}
	doubles := ParseDoubles("# stand-ins\npkg/a.TestDouble\n!pkg/a.TestDoubleReal\n")
	var out strings.Builder
	ok := Print(&out, wanted, doubles, passing(t, "TestA/GATE-1a_waits", "TestA/GATE-1_the_whole", "TestDoubleReal/GATE-2a_real",
		"TestDouble/GATE-2b_stands_in", "TestDouble/GATE-2a_stands_in", "TestDouble/GATE-3_too", "TestA/GATE-1c_GATE-7_are_in_no_list", "TestA/UTF-8_is_no_requirement"))
	want := `GATE-1    PARTLY   1 of 2 clauses
GATE-1a         1  pkg/a.TestA/GATE-1a_waits
GATE-1b   MISSING  goes on
GATE-2    DOUBLE   2 of 2 clauses
GATE-2a         2  pkg/a.TestDoubleReal/GATE-2a_real
GATE-2b   DOUBLE   pkg/a.TestDouble/GATE-2b_stands_in
GATE-3    DOUBLE   pkg/a.TestDouble/GATE-3_too
GATE-4    MISSING  0 of 1 clauses
GATE-4a   MISSING  nothing
GATE-1c   UNKNOWN  pkg/a.TestA/GATE-1c_GATE-7_are_in_no_list
GATE-7    UNKNOWN  pkg/a.TestA/GATE-1c_GATE-7_are_in_no_list
2 of 4 requirements proven, 2 of these with doubles only, 1 partly, 0 failed, 1 missing; 8 tests passed
`
	if ok || out.String() != want {
		t.Errorf("got %v\n%s\nwant false\n%s", ok, out.String(), want)
	}
}
