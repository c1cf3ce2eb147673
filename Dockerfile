# Two stages: a static binary, then an image that can fetch models (pip) and holds nothing else.
FROM golang:1.26-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags nomsgpack -ldflags "-s -w" -o /ragd ./cmd/ragd

FROM python:3.13-slim-trixie
RUN useradd --create-home --uid 65532 nonroot
COPY --from=build /ragd /usr/local/bin/ragd
USER nonroot
EXPOSE 8080
ENTRYPOINT ["ragd"]
CMD ["serve"]
