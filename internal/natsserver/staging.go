package natsserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stagingFolder is where a server without replicas keeps the messages of a batch until the last one is there.
const stagingFolder = "batches"

// StageInMemory lets the server gather the messages of a batch in memory instead of on its disk, for every log that is
// there now; it is called after a station was set up or a server started, and again changes nothing. A batch is
// acknowledged when the log itself is on disk, so nothing that was acknowledged can be lost by it: what is staged is of
// no use but to finish a batch that a crash cut in half, and the members of such a batch are sent again one by one.
// It reports how many logs are staged in memory: 0 where the machine has no folder in memory. An error is one of the
// server's own folder.
func (s *Server) StageInMemory() (int, error) {
	logs, err := filepath.Glob(filepath.Join(s.cfg.StoreDir, "jetstream", "*", "streams", "LOG_*"))
	if err != nil {
		return 0, fmt.Errorf("stage in memory: %w", err)
	}
	staged := 0
	for _, dir := range logs {
		room, ok := memoryFor(dir)
		if !ok {
			return staged, nil
		}
		if err := link(filepath.Join(dir, stagingFolder), room); err != nil {
			return staged, fmt.Errorf("stage in memory: %w", err)
		}
		staged++
	}
	return staged, nil
}

// memoryFor makes the folder in memory for a log, always the same one, so that none is left behind by a crash. It is ok
// if it belongs to this user alone.
func memoryFor(dir string) (room string, ok bool) {
	whole, err := filepath.Abs(dir)
	if err != nil || !isMemory(memoryRoot) {
		return "", false
	}
	sum := sha256.Sum256([]byte(whole))
	room = filepath.Join(memoryRoot, fmt.Sprintf("inspan-%d-%s", os.Getuid(), hex.EncodeToString(sum[:8])))
	if err := os.Mkdir(room, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false
	}
	return room, isOwn(room)
}

// link puts a link to the folder in memory where the server stages. A folder that the server made is only replaced
// while it is empty, which is while no batch is under way.
func link(at, room string) error {
	if to, err := os.Readlink(at); err == nil && to == room {
		return nil
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(room, at)
}

// dropStaging removes the folders in memory of this server, which has ended.
func (s *Server) dropStaging() {
	// the pattern is constant
	logs, _ := filepath.Glob(filepath.Join(s.cfg.StoreDir, "jetstream", "*", "streams", "LOG_*", stagingFolder))
	for _, at := range logs {
		if room, err := os.Readlink(at); err == nil && filepath.Dir(room) == memoryRoot && isOwn(room) {
			_ = os.RemoveAll(room) // the next start uses it again
			_ = os.Remove(at)
		}
	}
}
