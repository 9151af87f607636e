package agentfile

import (
	"math"
	"strconv"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// walls reads what a sandbox must enforce (C26): resources.cpu and resources.vcpu are one, sizes may have a unit.
func (p *parsing) isolation(sb *node, out *events.Sandbox) {
	out.Backend, out.MinIsolation = sb.get("isolation_backend").str(), sb.get("min_isolation").str()
	out.TimeoutMS, out.Image = sb.get("timeout").milliseconds(), sb.get("image").str()
	cpu, vcpu := sb.get("resources", "cpu"), sb.get("resources", "vcpu")
	if cpu != nil && vcpu != nil && cpu.decimal() != vcpu.decimal() {
		p.failAt(vcpu, Error{Code: CodeConflict, Message: "cpu and vcpu differ", Expected: "one of them",
			Actual: shown(vcpu.text), Hint: "leave vcpu out"})
	}
	out.CPU = max(cpu.decimal(), vcpu.decimal())
	out.MemoryBytes, out.DiskBytes = sb.get("resources", "memory").room(), sb.get("resources", "disk").room()
	out.PIDs = sb.get("resources", "pids").whole()
	files := sb.child("filesystem")
	out.ReadOnly, out.ReadWrite, out.Denied = files.get("read_only").words(), files.get("read_write").words(),
		files.get("denied").words()
}

// decimal returns the number of a value, 0 where it is absent or none.
func (n *node) decimal() float64 {
	if n == nil || n.kind != isInt && n.kind != isFloat {
		return 0
	}
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		return 0
	}
	return f
}

// toolRoom returns a size of memory or disk: units are powers of 1024 however they are spelled, and a number without
// one is in MiB, as the settings of microVMs have it.
func (n *node) room() int64 {
	if n == nil || n.kind != isInt && n.kind != isText {
		return 0
	}
	number := strings.TrimRight(n.text, "kKmMgGtTiIbB")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	power := 2
	if unit := strings.ToLower(n.text[len(number):]); unit != "" {
		power = 1 + strings.Index("kmgt", unit[:1])
	}
	f *= math.Pow(1024, float64(power))
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(f)
}
