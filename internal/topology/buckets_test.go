package topology

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	named := Buckets{State: "team-state", Files: "team_files"}
	// everything that the table says of buckets, as text
	table := func(b Buckets) string {
		var out strings.Builder
		for _, st := range b.Streams("s1", Limits{}) {
			st.Metadata = nil
			fmt.Fprintf(&out, "%+v\n", st)
		}
		for _, role := range events.Services() {
			publish, subscribe := b.Permissions("s1", role)
			fmt.Fprintln(&out, role, publish, subscribe)
		}
		out.WriteString(b.Accounts("s1", []User{b.Outsider("s1", "o", "", MayDispatch, MayWatch, MayApprove, MayHook)},
			func(string) string { return "x" }, b.Setup("s1"), b.Upgrade("s1")))
		return out.String()
	}
	t.Run("PERS-16 streams, permissions and accounts have the names and not the defaults, and are the same but for them", func(t *testing.T) {
		t.Parallel()
		got := table(named)
		for _, name := range []string{StateBucket, FilesBucket} {
			if strings.Contains(got, name) {
				t.Errorf("%s is in the table of a station with other names", name)
			}
		}
		if got = strings.NewReplacer(named.State, StateBucket, named.Files, FilesBucket).Replace(got); got != table(Buckets{}) {
			t.Error("the table differs in more than the names")
		}
		for _, want := range []string{"$KV.harness-state.s1.>", "$O.harness-files.C.>", "KV_harness-state", "OBJ_harness-files"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in the table", want)
			}
		}
	})
	t.Run("PERS-16 a name that cannot be used is refused with its variable", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			b    Buckets
			want string // a part of the error, empty for none
		}{
			{Buckets{}, ""}, {named, ""}, {Buckets{State: strings.Repeat("a", 64)}, ""}, {Buckets{State: FilesBucket, Files: StateBucket}, ""},
			{Buckets{State: strings.Repeat("a", 65)}, StateVariable}, {Buckets{State: "a.b"}, StateVariable}, {Buckets{State: "a b"}, StateVariable},
			{Buckets{State: "*"}, StateVariable}, {Buckets{Files: "a>"}, FilesVariable}, {Buckets{Files: "a/b"}, FilesVariable}, {Buckets{Files: "a\n"}, FilesVariable},
			{Buckets{State: ConfigBucket}, StateVariable}, {Buckets{State: LeaseBucket}, StateVariable}, {Buckets{State: SessionBucket}, StateVariable},
			{Buckets{Files: TreeBucket}, FilesVariable}, {Buckets{Files: ArtifactBucket}, FilesVariable},
			{Buckets{State: "same", Files: "same"}, "both"}, {Buckets{State: FilesBucket}, "both"},
		} {
			switch err := c.b.Check(); {
			case c.want == "" && err != nil:
				t.Errorf("%+v: %v", c.b, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%+v: got %v, want %s", c.b, err, c.want)
			}
		}
	})
	t.Run("PERS-16 the log says which names a station has; one that says nothing has the defaults", func(t *testing.T) {
		t.Parallel()
		log := func(b Buckets) map[string]string { return b.Streams("s1", Limits{})[0].Metadata }
		if m := log(Buckets{}); len(m) > 0 {
			t.Errorf("the log of a station with the defaults says %v", m)
		}
		server := map[string]string{"_nats.level": "2"}
		for _, c := range []struct {
			b    Buckets
			is   map[string]string
			want []string
		}{
			{Buckets{}, nil, nil}, {Buckets{State: StateBucket, Files: FilesBucket}, server, nil}, {named, log(named), nil},
			{named, server, []string{StateVariable, FilesVariable}}, {Buckets{}, log(named), []string{StateVariable, FilesVariable}},
			{Buckets{State: "team-state", Files: "other"}, log(named), []string{FilesVariable}},
		} {
			err := c.b.Match("s1", c.is)
			if _, other := errors.AsType[*OtherBucketsError](err); other != (len(c.want) > 0) {
				t.Errorf("%+v with %v: got %v", c.b, c.is, err)
			}
			for _, variable := range c.want {
				if !strings.Contains(err.Error(), variable+"=") {
					t.Errorf("%+v with %v: %v does not name %s", c.b, c.is, err, variable)
				}
			}
		}
	})
}
