package run

import (
	"encoding/json"
	"iter"
)

// chunk is the most elements an Append copies. With 64 a run is loaded with two thirds more bytes allocated.
const chunk = 16

// List is an append-only list that shares its past with the lists it was made from: Append copies at most one chunk
// and one pointer per chunk before it, never the elements. The zero value is an empty list. Safe for concurrent reads.
// What can be a function is no method, as in package slices: methods of a List are compiled into every package that
// knows a State.
type List[T any] struct {
	full [][]T
	tail []T
}

// Len returns the number of elements.
func (l List[T]) Len() int { return len(l.full)*chunk + len(l.tail) }

// At returns element i, 0 <= i < Len.
func (l List[T]) At(i int) T {
	if c := i / chunk; c < len(l.full) {
		return l.full[c][i%chunk]
	}
	return l.tail[i-len(l.full)*chunk]
}

// Append returns a list with v at its end; l stays as it was.
func Append[T any](l List[T], v T) List[T] {
	tail := make([]T, len(l.tail)+1)
	copy(tail, l.tail)
	tail[len(l.tail)] = v
	if len(tail) < chunk {
		return List[T]{full: l.full, tail: tail}
	}
	full := make([][]T, len(l.full)+1)
	copy(full, l.full)
	full[len(l.full)] = tail
	return List[T]{full: full}
}

// All yields the elements of a list in order.
func All[T any](l List[T]) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range l.Len() {
			if !yield(i, l.At(i)) {
				return
			}
		}
	}
}

// Backward yields the elements of a list from the last to the first.
func Backward[T any](l List[T]) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := l.Len() - 1; i >= 0; i-- {
			if !yield(i, l.At(i)) {
				return
			}
		}
	}
}

// Slice returns the elements in a new slice, never nil.
func Slice[T any](l List[T]) []T {
	out := make([]T, 0, l.Len())
	for _, some := range l.full {
		out = append(out, some...)
	}
	return append(out, l.tail...)
}

// MarshalJSON writes a JSON array.
func (l List[T]) MarshalJSON() ([]byte, error) { return json.Marshal(Slice(l)) }

// UnmarshalJSON reads a JSON array.
func (l *List[T]) UnmarshalJSON(b []byte) error {
	var vs []T
	if err := json.Unmarshal(b, &vs); err != nil {
		return err
	}
	*l = Of(vs...)
	return nil
}

// Of makes a list.
func Of[T any](vs ...T) List[T] {
	var l List[T]
	for len(vs) >= chunk {
		l.full = append(l.full, vs[:chunk:chunk])
		vs = vs[chunk:]
	}
	if len(vs) > 0 {
		l.tail = vs[:len(vs):len(vs)]
	}
	return l
}
