package acp_test

import (
	"testing"

	"github.com/inspan/inspan/internal/runtime/acp"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/pkg/events"
)

func TestMain(m *testing.M) {
	if !runtimetest.Main() {
		m.Run()
	}
}

func TestExam(t *testing.T) {
	t.Parallel()
	runtimetest.Exam(t, acp.Driver{}, events.DriverACP)
}
