//go:build !linux

package git

import "syscall"

func swap(aside, tree string) error { return replace(aside, tree) }

func changed(s *syscall.Stat_t) int64 { return s.Ctimespec.Nano() }
