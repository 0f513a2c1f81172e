from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []  # noqa: RUF012
    operations = [  # noqa: RUF012
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("number", models.BigIntegerField(unique=True)),
                ("shipped", models.IntegerField(default=0)),
            ],
        )
    ]
