//go:build !linux

package microvm

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
