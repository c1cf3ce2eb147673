# Two images from one static binary.
#   server   nothing but ragd: no shell, no package manager, not root. Needs DATABASE_URL, and models in /models.
#   tools    the same beside pip, which fetches models: docker build --target tools
FROM golang:1.26-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags nomsgpack -ldflags "-s -w" -o /ragd ./cmd/ragd
RUN mkdir -p /empty/models /empty/home /empty/tmp && chown -R 65532:65532 /empty && chmod 1777 /empty/tmp

FROM python:3.13-slim-trixie AS tools
COPY --from=build /ragd /usr/local/bin/ragd
COPY --from=build --chown=65532:65532 /empty/models /models
USER 65532:65532
ENV RAGD_MODELS=/models HOME=/tmp
ENTRYPOINT ["ragd"]
CMD ["models", "pull"]

FROM scratch AS server
COPY --from=build /empty/ /
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /ragd /ragd
USER 65532:65532
ENV RAGD_MODELS=/models HOME=/home RAGD_OFFLINE=true RAGD_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["/ragd", "health"]
ENTRYPOINT ["/ragd"]
CMD ["serve"]
