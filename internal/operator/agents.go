package operator

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// Configuration is the bucket of the registered agents, for users who may write it.
func Configuration(c *client.Client) (kernel.KV, error) {
	st, err := of(c)
	if err != nil {
		return nil, err
	}
	return st.st.KV(topology.ConfigBucket), nil
}
