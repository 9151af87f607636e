# Three images: "service" (from scratch) holds all programs; "toolrunner" has what tools need besides; "sandbox" is the
# default of sandboxes of mode docker. The targets planner, gatekeeper, executor, persister, gateway and inspan (the
# default) are "service" with that program as the one to start. Without a registry, deploy/images.sh makes the same three.
ARG BUILD=golang:1.26-bookworm
ARG TOOLS=debian:bookworm-slim

FROM ${BUILD} AS builder
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0
RUN go build -trimpath -pgo=deploy/release/inspan.pgo -ldflags="-s -w" -o /out/ ./cmd/inspan ./cmd/planner ./cmd/gatekeeper ./cmd/executor ./cmd/toolrunner ./cmd/persister ./cmd/gateway ./cmd/healthcheck ./cmd/inspan-within

FROM ${TOOLS} AS toolrunner
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash bubblewrap ca-certificates git \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o 65532 -g 65532 /workspace
COPY --from=builder /out/toolrunner /out/healthcheck /out/inspan-within /
ENV HOME=/tmp INSPAN_WORKSPACE=/workspace INSPAN_HTTP=:8080
USER 65532:65532
WORKDIR /workspace
ENTRYPOINT []
CMD ["/toolrunner"]

FROM ${TOOLS} AS sandbox
COPY deploy/sandbox.packages /tmp/
RUN apt-get update \
 && apt-get install -y --no-install-recommends $(grep -v '^#' /tmp/sandbox.packages) \
 && rm -rf /var/lib/apt/lists/* /tmp/sandbox.packages
CMD ["bash"]

FROM scratch AS service
COPY --from=builder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=builder /out/ /
ENV INSPAN_HTTP=:8080
USER 65532:65532
WORKDIR /

FROM service AS planner
CMD ["/planner"]

FROM service AS gatekeeper
CMD ["/gatekeeper"]

FROM service AS executor
CMD ["/executor"]

FROM service AS persister
CMD ["/persister"]

FROM service AS gateway
CMD ["/gateway"]

FROM service AS inspan
ENTRYPOINT ["/inspan"]
CMD ["--help"]
