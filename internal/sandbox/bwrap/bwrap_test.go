package bwrap_test

import (
	"testing"

	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

func TestExam(t *testing.T) { sandboxtest.Exam(t, bwrap.New("", "")) }

func TestEscape(t *testing.T) { sandboxtest.Escape(t, bwrap.New("", "")) }

func TestSwap(t *testing.T) { sandboxtest.Swap(t, bwrap.New("", "")) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, bwrap.New("", "")) }
