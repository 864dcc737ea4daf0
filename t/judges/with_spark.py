"""Pi by Spark, again and again until somebody says that it is enough; it says on how many executors."""
import os
import random
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext


def inside(_):
    return os.environ["SPARK_EXECUTOR_ID"], random.random() ** 2 + random.random() ** 2 < 1


while True:
    got = sc.parallelize(range(40000), 8).map(inside).collect()
    print("Pi is roughly", 4 * sum(i for _, i in got) / len(got), "by executors", *sorted({int(e) for e, _ in got}), flush=True)
    if os.path.exists("/tmp/end"):
        break
    time.sleep(0.5)
spark.stop()
