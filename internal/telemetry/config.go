package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Config holds the standard variables of OpenTelemetry; the names are theirs. The zero value is off. Headers, time
// limits, compression, certificates and the attributes of the resource are read from their OTEL_ variables by the
// exporters themselves.
type Config struct {
	// Endpoint is the address of an OTLP/HTTP receiver; signals go to /v1/traces and /v1/metrics below it. Traces and
	// Metrics are whole addresses of one signal, and go before it.
	Endpoint, Traces, Metrics string
	// Protocol must be http/protobuf or empty.
	Protocol string
	// Disabled turns all off. TracesExporter and MetricsExporter are otlp or none; empty means otlp.
	Disabled                        bool
	TracesExporter, MetricsExporter string
	// Sampler is one of always_on, always_off, traceidratio and those with parentbased_ before them; empty means
	// parentbased_always_on. Arg is the share for traceidratio, from 0 to 1.
	Sampler, Arg string
	// Content puts what people, models and tools wrote into spans.
	Content bool
}

func (c Config) traces() string {
	return c.address(c.Traces, c.TracesExporter, "/v1/traces")
}

func (c Config) metrics() string {
	return c.address(c.Metrics, c.MetricsExporter, "/v1/metrics")
}

func (c Config) address(own, exporter, path string) string {
	switch {
	case c.Disabled || exporter == "none":
		return ""
	case own != "":
		return own
	case c.Endpoint != "":
		return strings.TrimRight(c.Endpoint, "/") + path
	}
	return ""
}

// On reports whether anything is exported.
func (c Config) On() bool { return c.traces() != "" || c.metrics() != "" }

// Check says what is wrong, and with which variable.
func (c Config) Check() error {
	if !c.On() {
		return nil
	}
	var errs []error
	for name, address := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.Endpoint,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":  c.Traces,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": c.Metrics} {
		// The address may hold a password: it is not repeated.
		if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			u.Host == "") {
			errs = append(errs, fmt.Errorf("%s is not an address such as http://127.0.0.1:4318", name))
		}
	}
	if c.Protocol != "" && c.Protocol != "http/protobuf" {
		errs = append(errs, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf is supported, on port 4318 of most receivers", c.Protocol))
	}
	for name, v := range map[string]string{"OTEL_TRACES_EXPORTER": c.TracesExporter,
		"OTEL_METRICS_EXPORTER": c.MetricsExporter} {
		if v != "" && v != "otlp" && v != "none" {
			errs = append(errs, fmt.Errorf("%s is %q, want otlp or none", name, v))
		}
	}
	if _, err := c.sampler(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sampler decides about whole traces: the trace's id, whether the task came with a trace, and what that said.
type sampler func(low uint64, given, sampled bool) bool

func (c Config) sampler() (sampler, error) {
	name, byParent := strings.CutPrefix(c.Sampler, "parentbased_")
	var root func(low uint64) bool
	switch name {
	case "", "always_on":
		byParent = byParent || name == ""
		root = func(uint64) bool { return true }
	case "always_off":
		root = func(uint64) bool { return false }
	case "traceidratio":
		share := 1.0
		if c.Arg != "" {
			var err error
			if share, err = strconv.ParseFloat(c.Arg, 64); err != nil || share < 0 || share > 1 {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, want a ratio from 0 to 1", c.Arg)
			}
		}
		bound := uint64(share * (1 << 63)) // as other SDKs do: 63 bits of the second half of the id
		root = func(low uint64) bool { return low>>1 < bound }
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q, want always_on, always_off or traceidratio, alone or behind parentbased_", c.Sampler)
	}
	return func(low uint64, given, sampled bool) bool {
		if byParent && given {
			return sampled
		}
		return root(low)
	}, nil
}
