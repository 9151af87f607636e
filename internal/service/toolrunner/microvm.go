package toolrunner

import (
	"os/exec"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/microvm"
)

// machines are the backends whose commands run in virtual machines of this computer.
func (c Config) machines() []sandbox.Backend {
	return []sandbox.Backend{c.machine(sandbox.QEMU), c.machine(sandbox.Firecracker)}
}

// machinesNamed are those that the settings name, and those whose kernel is named and whose engine is there.
func (c Config) machinesNamed() []sandbox.Backend {
	var list []sandbox.Backend
	for _, m := range []struct {
		mode           sandbox.Mode
		named, program string
	}{{sandbox.QEMU, c.QEMU, microvm.DefaultQEMU}, {sandbox.Firecracker, c.Firecracker, microvm.DefaultFirecracker}} {
		if m.named != "" {
			m.program = m.named
		}
		_, err := exec.LookPath(m.program)
		if c.names(m.mode) || c.MicroVMKernel != "" && err == nil {
			list = append(list, c.machine(m.mode))
		}
	}
	return list
}

func (c Config) machine(mode sandbox.Mode) *microvm.Backend {
	program := c.QEMU
	if mode == sandbox.Firecracker {
		program = c.Firecracker
	}
	return microvm.New(microvm.Config{Mode: mode, Program: program, Kernel: c.MicroVMKernel, Initrd: c.MicroVMInitrd,
		Root: c.MicroVMRoot, Accel: microvm.Accel(c.MicroVMAccel),
		CPUs: c.MicroVMCPUs, Memory: c.MicroVMMemory << 20, Disk: c.MicroVMDisk << 20})
}
