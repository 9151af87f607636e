package shipped

import (
	"reflect"
	"testing"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []Commit
	}{
		"nothing": {"", nil},
		"two commits": {"-- commit: One --\n-- a/b --\nx\n\n-- c --\n-- commit: Two --\n-- a/b --\ny --\n-- not a file\n",
			[]Commit{{"One", []File{{"a/b", "x\n\n"}, {"c", ""}}}, {"Two", []File{{"a/b", "y --\n-- not a file\n"}}}}},
		"what stands before the first file is for people": {"about\n-- commit: One --\nmore\n-- a --\nx\n", []Commit{{"One", []File{{"a", "x\n"}}}}},
	} {
		t.Run("ID-15 "+name, func(t *testing.T) {
			t.Parallel()
			if got := history(c.text); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
