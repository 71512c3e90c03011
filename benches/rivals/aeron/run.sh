#!/bin/sh
# Runs Aeron's part in `barewire bench --rivals` (Rival.java), with the options that Aeron's own
# scripts give to Java, its ping and its driver. Java writes no file of its own performance, which
# it would leave behind when it is killed. `make rivals` installs this as `aeron`.
here=$(dirname "$0")
exec java -cp "$here/java:$here/java/aeron-all.jar" \
    -XX:+IgnoreUnrecognizedVMOptions \
    -XX:+UnlockExperimentalVMOptions -XX:+TrustFinalNonStaticFields \
    -XX:+UnlockDiagnosticVMOptions -XX:GuaranteedSafepointInterval=300000 \
    -XX:+UseParallelGC -XX:-UsePerfData \
    --add-opens java.base/jdk.internal.misc=ALL-UNNAMED \
    --add-opens java.base/java.util.zip=ALL-UNNAMED \
    -Dagrona.disable.bounds.checks=true -Daeron.pre.touch.mapped.memory=true \
    Rival "$@"
