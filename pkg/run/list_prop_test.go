package run_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/run"
)

func TestList(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 EVT-4 a list is a slice that shares its past and never changes it", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			type pair struct {
				list run.List[int]
				want []int
			}
			start := rapid.SliceOfN(rapid.Int(), 0, 200).Draw(t, "start")
			all := []pair{{run.Of(start...), slices.Clone(start)}}
			for range rapid.IntRange(0, 150).Draw(t, "appends") {
				old := all[rapid.IntRange(max(0, len(all)-3), len(all)-1).Draw(t, "of")]
				v := rapid.Int().Draw(t, "value")
				all = append(all, pair{run.Append(old.list, v), append(slices.Clone(old.want), v)})
			}
			for _, p := range all {
				same(t, p.list, p.want)
			}
			last := all[len(all)-1]
			b, err := json.Marshal(last.list)
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			want, _ := json.Marshal(append([]int{}, last.want...))
			if string(b) != string(want) {
				t.Fatalf("got %s, want %s", b, want)
			}
			var back run.List[int]
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatalf("decode: %v", err)
			}
			same(t, back, last.want)
		})
	})
	t.Run("EVT-8 what is no array is refused", func(t *testing.T) {
		t.Parallel()
		l := run.Of(1, 2)
		if err := json.Unmarshal([]byte(`{"a":1}`), &l); err == nil {
			t.Error("got no error")
		}
	})
}

func same(t *rapid.T, l run.List[int], want []int) {
	if l.Len() != len(want) || !slices.Equal(run.Slice(l), want) {
		t.Fatalf("got %v, want %v", run.Slice(l), want)
	}
	var forward, back []int
	for i, v := range run.All(l) {
		if i != len(forward) || l.At(i) != v {
			t.Fatalf("element %d: got %d, At says %d", i, v, l.At(i))
		}
		forward = append(forward, v)
	}
	for _, v := range run.Backward(l) {
		back = append(back, v)
	}
	slices.Reverse(back)
	if !slices.Equal(forward, want) || !slices.Equal(back, want) {
		t.Fatalf("forward %v, backward %v, want %v", forward, back, want)
	}
	for range run.All(l) { // leaving early is allowed
		break
	}
	for range run.Backward(l) {
		break
	}
}
