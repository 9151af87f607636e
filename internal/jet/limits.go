package jet

import (
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/topology"
)

// limitHint says what to do about a limit of the account or the server that a station does not fit into.
func limitHint(err error) error {
	hint, ok := map[jetstream.ErrorCode]string{
		codeDisabled:    "this NATS server runs without JetStream: add jetstream {} to its configuration",
		codeNoAccountJS: "JetStream is not enabled for the account of this user: use the user setup of the account of the streams, or have JetStream enabled for the account",
		codeNoTier:      "the account has no JetStream limits for this number of replicas: set INSPAN_REPLICAS to one that it has, which inspan doctor shows",
		codeMaxStreams: fmt.Sprintf("a station needs %d streams, and the account may have no more: have its limit of streams raised",
			len(topology.Streams("s", topology.Limits{}))),
		codeMaxConsumers: fmt.Sprintf("a stream of a station has %d consumers, and may have no more in this account: have its limit of consumers raised",
			topology.MostConsumers()),
		codeReplicas:      "this server stands alone: set INSPAN_REPLICAS=1, or use a cluster of three",
		codeNoPeers:       "the cluster has fewer servers with room than INSPAN_REPLICAS: set it to as many as there are, or free room on them",
		codeBytesRequired: "the account wants a limit of every stream: set INSPAN_LOG_MAX_BYTES, INSPAN_FILES_MAX_BYTES and INSPAN_ARTIFACT_MAX_BYTES",
		codeStreamBytes:   "the account lets no stream be so large: set INSPAN_LOG_MAX_BYTES, INSPAN_IN_MAX_BYTES, INSPAN_FILES_MAX_BYTES and INSPAN_ARTIFACT_MAX_BYTES to less, or have its limit raised",
		codeMaxPending:    fmt.Sprintf("consumers of a station may have %d messages unacknowledged: have the account's limit of them raised", topology.MostPending()),
	}[code(err)]
	if !ok {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}
