// Package localstore is a station in one file: every port of the kernel over ordered keys (bbolt), without a server.
//
// Promises: it keeps the contracts of the ports as internal/jet does and passes the same exams (kerneltest). What it
// acknowledged is on the disk and survives kill -9 and a power cut. One process owns the file at a time; another is
// refused with ErrInUse. A bit of the file that is not as it was written is reported when the file is opened, or when
// the value is read (see verify). Readers wait for no writer, and writers that come at the same time share one sync.
// Room that is freed is used again, and the file does not shrink.
//
// It serves in two ways. Alone it is the whole store of a station without NATS. As a Fallback it has the events of a
// station whose primary log is away, on a branch of each run, and hands them over, byte for byte and guarded by
// compare-and-set, once the primary is back; a branch that the primary has gone past is never merged: it stays as
// evidence, and a dead letter reports it.
package localstore
